package magnetar.example;

import java.util.ArrayList;
import java.util.List;
import magnetar.kernel.channel.Buffer;
import magnetar.kernel.channel.Channel;
import magnetar.kernel.channel.Select;

/** Channels from Java alone: one fiber counts, another takes until it has enough. */
public final class Numbers {
    private Numbers() {}

    /** The squares of 1 to n, made by one virtual thread and taken by the caller. */
    public static List<Integer> squares(int n) throws InterruptedException {
        Channel<Integer> squares = Channel.of(Buffer.fixed(8));
        Thread.startVirtualThread(() -> {
            try {
                for (int i = 1; i <= n; i++) {
                    squares.send(i * i);
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            squares.close();
        });
        List<Integer> heard = new ArrayList<>();
        for (Integer s = squares.receive(); s != null; s = squares.receive()) {
            heard.add(s);
        }
        return heard;
    }

    /** Operations that do not wait, and a select that takes what comes first. */
    public static String first() throws InterruptedException {
        Channel<String> news = Channel.rendezvous();
        Channel<String> jobs = Channel.of(Buffer.fixed(1));
        boolean accepted = jobs.trySend("job");
        boolean refused = !jobs.trySend("one too many");
        Select.Chosen chosen = Select.of(Select.take(news), Select.take(jobs)).await();
        boolean empty = jobs.tryReceive() == null;
        return accepted && refused && empty ? "branch " + chosen.index() + ": " + chosen.value() : "unexpected";
    }

    public static void main(String[] args) throws InterruptedException {
        System.out.println(squares(5));
        System.out.println(first());
    }
}
