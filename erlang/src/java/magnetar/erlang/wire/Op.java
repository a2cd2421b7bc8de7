package magnetar.erlang.wire;

/** The numbers of the control messages. The second number of a kind is of one with a trace token. */
final class Op {
    static final int LINK = 1;
    static final int SEND = 2;
    static final int EXIT = 3;
    static final int REG_SEND = 6;
    static final int GROUP_LEADER = 7;
    static final int EXIT2 = 8;
    static final int SEND_TT = 12;
    static final int EXIT_TT = 13;
    static final int REG_SEND_TT = 16;
    static final int EXIT2_TT = 18;
    static final int MONITOR = 19;
    static final int DEMONITOR = 20;
    static final int DOWN = 21;
    static final int SEND_SENDER = 22;
    static final int SEND_SENDER_TT = 23;
    static final int PAYLOAD_EXIT = 24;
    static final int PAYLOAD_EXIT_TT = 25;
    static final int PAYLOAD_EXIT2 = 26;
    static final int PAYLOAD_EXIT2_TT = 27;
    static final int PAYLOAD_DOWN = 28;
    static final int SPAWN_REQUEST = 29;
    static final int SPAWN_REQUEST_TT = 30;
    static final int SPAWN_REPLY = 31;
    static final int SPAWN_REPLY_TT = 32;
    static final int ALIAS_SEND = 33;
    static final int ALIAS_SEND_TT = 34;
    static final int UNLINK_ID = 35;
    static final int UNLINK_ID_ACK = 36;

    private Op() {}
}
