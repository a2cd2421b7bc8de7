package magnetar.lincheck;

import magnetar.kernel.channel.Callback;
import magnetar.kernel.channel.Channel;
import magnetar.kernel.channel.Select;
import org.jetbrains.lincheck.datastructures.IntGen;
import org.jetbrains.lincheck.datastructures.Operation;
import org.jetbrains.lincheck.datastructures.Param;

/**
 * Selects that cross on two channels, among plain operations.
 *
 * <p>Checked for serializability, not linearizability. A select queues in one channel after the other and
 * never holds two locks, as in core.async and unlike Go. So it may take an offer on the first channel before
 * it has reached the second, where a taker has come to wait meanwhile. The results fit some order of all
 * operations, though perhaps not their order in time. This is proved for one operation per thread. With two
 * per thread, one run in some hundred thousand fitted no order, and which promise holds there is open.
 */
public final class Selects {
    private Selects() {}

    @Param(name = "value", gen = IntGen.class, conf = "1:3")
    public static final class Crossing {
        private final Channel<Integer> a = Channel.rendezvous();
        private final Channel<Integer> b = Channel.rendezvous();

        @Operation
        public String takeAPutB(@Param(name = "value") int value) {
            return select(Select.take(a), Select.put(b, value));
        }

        @Operation
        public String takeBPutA(@Param(name = "value") int value) {
            return select(Select.take(b), Select.put(a, value));
        }

        @Operation
        public String takeAOrB() {
            return select(Select.take(a), Select.take(b));
        }

        @Operation
        public String nowAOrB() {
            return String.valueOf(Select.of(Select.take(a), Select.take(b)).inOrder().now());
        }

        @Operation
        public String offerA(@Param(name = "value") int value) {
            return String.valueOf(a.sendNow(value));
        }

        @Operation
        public String pollB() {
            return String.valueOf(b.receiveNow());
        }

        @Operation
        public String putA(@Param(name = "value") int value) {
            return String.valueOf(a.sendAsync((Object) value, new Callback(r -> {}, true)));
        }

        @Operation
        public void closeB() {
            b.close();
        }

        private static String select(Select.Operation first, Select.Operation second) {
            return String.valueOf(Select.of(first, second).inOrder().whenChosen(r -> {}, true));
        }
    }

    public static final class CrossingModel {
        private final Model a = new Model(Model.Kind.RENDEZVOUS, 0);
        private final Model b = new Model(Model.Kind.RENDEZVOUS, 0);

        public String takeAPutB(int value) {
            return select(a, null, b, value, new Model.Party());
        }

        public String takeBPutA(int value) {
            return select(b, null, a, value, new Model.Party());
        }

        public String takeAOrB() {
            return select(a, null, b, null, new Model.Party());
        }

        public String nowAOrB() {
            return select(a, null, b, null, null);
        }

        public String offerA(int value) {
            return a.put(value, null);
        }

        public String pollB() {
            return b.take(null);
        }

        public String putA(int value) {
            return a.put(value, new Model.Party());
        }

        public void closeB() {
            b.close();
        }

        private static String select(Model first, Integer v, Model second, Integer w, Model.Party party) {
            String r = operate(first, v, null);
            if (!r.equals("PENDING")) {
                return chosen(0, r);
            }
            r = operate(second, w, null);
            if (!r.equals("PENDING")) {
                return chosen(1, r);
            }
            operate(first, v, party);
            operate(second, w, party);
            return "null";
        }

        private static String operate(Model model, Integer item, Model.Party party) {
            return item == null ? model.take(party) : model.put(item, party);
        }

        private static String chosen(int index, String value) {
            return new Select.Chosen(index, value).toString();
        }
    }
}
