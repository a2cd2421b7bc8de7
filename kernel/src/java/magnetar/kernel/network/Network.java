package magnetar.kernel.network;

import java.io.IOException;

/**
 * A network of nodes as one of them sees it: its members, and frames of bytes to each. An engine implements it,
 * real or simulated.
 *
 * <p>What an engine promises:
 * <ol>
 *   <li>Views. Each view contains the member itself. The events of one member come one at a time. The views of two
 *       members may differ, come late, and come in different orders. So A may have B in its view while B does not
 *       have A.
 *   <li>Frames. A frame arrives unchanged, at most once. Frames from one member to another arrive in the order in
 *       which they were sent. None is lost as long as neither of the two enters or leaves the view of the other.
 *       Around such a change frames may be lost, also from the middle.
 *   <li>Ends. A member that crashes or cannot be reached leaves the views of the others after some time, and the
 *       others leave its view. If it can be reached again, they all come back with the same {@code id}, in views
 *       that are {@code merged}. A member may leave and come back at any time, also while it can be reached.
 * </ol>
 *
 * <p>What it does not promise: that a frame arrives, that views agree, or that a frame is from the member that it
 * names. The stream above counts frames and proves identities.
 */
public interface Network {
    /** The longest frame, in bytes. */
    int MAX_FRAME = 1 << 16;

    /** What happens in a network. The methods must return soon, and must not call {@link Network#send}. */
    interface Events {
        /** The view has changed. */
        void view(View next);

        /** A frame has arrived. The array belongs to the receiver. The sender may be in no view yet, or no longer. */
        void frame(Member from, byte[] frame);
    }

    /**
     * Joins. Blocks until the first view was told, and returns this member.
     *
     * @throws IOException if that is not possible, with a sentence that names the place and a remedy
     * @throws IllegalStateException if it has joined before, also if it has left since
     */
    Member join(Events events) throws IOException, InterruptedException;

    /** The last view that was told. */
    View view();

    /**
     * Sends a frame, which the caller changes no more. Blocks while the receiver is slow, at most until it has left
     * the view. A frame to a member that is not in the view is dropped.
     *
     * @throws IllegalArgumentException if the frame is longer than {@link #MAX_FRAME}
     */
    void send(Member to, byte[] frame) throws InterruptedException;

    /**
     * Cuts off a member that breaks the rules, or is too slow. It leaves the view, and frames from it are dropped until
     * it has come back in a later view.
     */
    void cut(Member other);

    /** The address at which another node finds this one, such as {@code 127.0.0.1:7800}. */
    String address();

    /**
     * Leaves, behind the frames that were sent. The others soon have a view without this member. No event comes after it
     * has returned.
     */
    void leave() throws InterruptedException;
}
