package magnetar.etf;

/** The tags of the external term format, as Erlang's documentation names them. */
final class Tag {

    static final int VERSION = 131;
    static final int NEW_FLOAT = 70;
    static final int BIT_BINARY = 77;
    static final int COMPRESSED = 80;
    static final int ATOM_CACHE_REF = 82;
    static final int NEW_PID = 88;
    static final int NEW_PORT = 89;
    static final int NEWER_REFERENCE = 90;
    static final int SMALL_INTEGER = 97;
    static final int INTEGER = 98;
    static final int FLOAT = 99;
    static final int ATOM = 100;
    static final int REFERENCE = 101;
    static final int PORT = 102;
    static final int PID = 103;
    static final int SMALL_TUPLE = 104;
    static final int LARGE_TUPLE = 105;
    static final int NIL = 106;
    static final int STRING = 107;
    static final int LIST = 108;
    static final int BINARY = 109;
    static final int SMALL_BIG = 110;
    static final int LARGE_BIG = 111;
    static final int NEW_FUN = 112;
    static final int EXPORT = 113;
    static final int NEW_REFERENCE = 114;
    static final int SMALL_ATOM = 115;
    static final int MAP = 116;
    static final int ATOM_UTF8 = 118;
    static final int SMALL_ATOM_UTF8 = 119;
    static final int V4_PORT = 120;

    private Tag() {}
}
