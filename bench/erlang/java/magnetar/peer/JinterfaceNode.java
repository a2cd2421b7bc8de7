package magnetar.peer;

import com.ericsson.otp.erlang.OtpErlangAtom;
import com.ericsson.otp.erlang.OtpErlangBinary;
import com.ericsson.otp.erlang.OtpErlangLong;
import com.ericsson.otp.erlang.OtpErlangObject;
import com.ericsson.otp.erlang.OtpErlangPid;
import com.ericsson.otp.erlang.OtpErlangRef;
import com.ericsson.otp.erlang.OtpErlangTuple;
import com.ericsson.otp.erlang.OtpExternal;
import com.ericsson.otp.erlang.OtpInputStream;
import com.ericsson.otp.erlang.OtpMbox;
import com.ericsson.otp.erlang.OtpNode;
import com.ericsson.otp.erlang.OtpOutputStream;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;

/**
 * The node of the suite {@code erlang} that measures jinterface: reads lines {@code workload number ..} and answers each with nanoseconds.
 * Its arguments are its name, the cookie, the name of the BEAM, and how many terms that has.
 */
public final class JinterfaceNode {
    private static final byte[] PAYLOAD = new byte[100];

    private final OtpNode node;
    private final OtpMbox mbox;
    private final OtpErlangPid server;
    private final OtpErlangPid sink;
    private final OtpErlangPid source;
    private final byte[][] terms;

    private JinterfaceNode(String name, String cookie, String beam, int count) throws Exception {
        node = new OtpNode(name, cookie);
        mbox = node.createMbox();
        server = (OtpErlangPid) call(beam, tuple(atom("whereis"), atom("server")));
        sink = (OtpErlangPid) call(null, tuple(atom("whereis"), atom("sink")));
        source = (OtpErlangPid) call(null, tuple(atom("whereis"), atom("source")));
        terms = new byte[count][];
        for (int i = 0; i < count; i++) {
            terms[i] = ((OtpErlangBinary) call(null, tuple(atom("term"), number(i + 1)))).binaryValue();
        }
    }

    private static OtpErlangAtom atom(String name) {
        return new OtpErlangAtom(name);
    }

    private static OtpErlangLong number(long n) {
        return new OtpErlangLong(n);
    }

    private static OtpErlangTuple tuple(OtpErlangObject... elements) {
        return new OtpErlangTuple(elements);
    }

    /** What {@code gen_server:call} does, without its monitor: by the name of the server on a BEAM, or by its pid. */
    private OtpErlangObject call(String beam, OtpErlangObject request) throws Exception {
        OtpErlangRef tag = node.createRef();
        OtpErlangTuple message = tuple(atom("$gen_call"), tuple(mbox.self(), tag), request);
        if (beam == null) {
            mbox.send(server, message);
        } else {
            mbox.send("server", beam, message);
        }
        while (true) {
            if (mbox.receive() instanceof OtpErlangTuple answer && answer.elementAt(0).equals(tag)) {
                return answer.elementAt(1);
            }
        }
    }

    private void calls(long n) throws Exception {
        OtpErlangBinary request = new OtpErlangBinary(PAYLOAD);
        for (long i = 0; i < n; i++) {
            check(request.equals(call(null, request)));
        }
    }

    private void send(long n) throws Exception {
        mbox.send(sink, tuple(atom("count"), mbox.self(), number(n)));
        OtpErlangBinary message = new OtpErlangBinary(PAYLOAD);
        for (long i = 0; i < n; i++) {
            mbox.send(sink, message);
        }
        check(mbox.receive().equals(atom("done")));
    }

    private void receive(long n) throws Exception {
        mbox.send(source, tuple(atom("send"), mbox.self(), number(n)));
        for (long i = 0; i < n; i++) {
            check(mbox.receive() instanceof OtpErlangBinary);
        }
    }

    private static byte[] encoded(OtpErlangObject term) {
        OtpOutputStream out = new OtpOutputStream();
        out.write1(OtpExternal.versionTag);
        out.write_any(term);
        return out.toByteArray();
    }

    private static OtpErlangObject decoded(byte[] bytes) throws Exception {
        return new OtpInputStream(bytes).read_any();
    }

    private static void encode(byte[] bytes, long n) throws Exception {
        OtpErlangObject term = decoded(bytes);
        for (long i = 0; i < n; i++) {
            check(encoded(term).length > 3);
        }
    }

    private static void decode(byte[] bytes, long n) throws Exception {
        for (long i = 0; i < n; i++) {
            check(!(decoded(bytes) instanceof OtpErlangPid));
        }
    }

    private static void check(boolean holds) {
        if (!holds) {
            throw new IllegalStateException("an answer is wrong");
        }
    }

    private void work(String what, long[] numbers) throws Exception {
        switch (what) {
            case "collect" -> System.gc();
            case "call" -> calls(numbers[0]);
            case "send" -> send(numbers[0]);
            case "receive" -> receive(numbers[0]);
            case "encode" -> encode(terms[(int) numbers[0] - 1], numbers[1]);
            case "decode" -> decode(terms[(int) numbers[0] - 1], numbers[1]);
            default -> throw new IllegalArgumentException(what);
        }
    }

    private void answerLines() throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            long[] numbers = Arrays.stream(words).skip(1).mapToLong(Long::parseLong).toArray();
            long begin = System.nanoTime();
            work(words[0], numbers);
            System.out.println(System.nanoTime() - begin);
        }
    }

    public static void main(String[] args) {
        try {
            Arrays.fill(PAYLOAD, (byte) 7);
            new JinterfaceNode(args[0], args[1], args[2], Integer.parseInt(args[3])).answerLines();
        } catch (Exception e) {
            e.printStackTrace();
        }
        System.exit(0);
    }
}
