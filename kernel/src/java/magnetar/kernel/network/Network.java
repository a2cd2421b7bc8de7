package magnetar.kernel.network;

import java.io.IOException;

/**
 * A network of nodes as one of them sees it: who is there, and frames of bytes to each. An engine implements it,
 * real or simulated.
 *
 * <p>What an engine promises:
 * <ol>
 *   <li>Views. Each view contains the member itself. The events of one member come one at a time, and views in
 *       an order. The views of two members may differ, come late, and overlap. So a member can be in the view of
 *       another one that is not in its own.
 *   <li>Frames. A frame arrives unchanged, at most once. Frames from one member to another arrive in the order in
 *       which they were sent. None is lost between two changes of the receiver in the view of the sender and of
 *       the sender in the view of the receiver. Around such a change frames may be lost, also from the middle.
 *   <li>Ends. A member that crashes or cannot be reached leaves the views of the others after some time. If it
 *       can be reached again, it comes back with the same {@code id}, in a view that is {@code merged}. At a
 *       member for which the others have left, they come back likewise. It may leave and come back at any time.
 * </ol>
 *
 * <p>What it does not promise: that a frame arrived, that views agree, or who sent a frame. The stream above counts
 * frames and proves identities.
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
     * Joins. Returns this member when its first view was told. Blocks until then.
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
     * Cuts a member off, as one that breaks the rules, or is too slow: it leaves the view, and frames from it are
     * dropped until it has come back in a later view.
     */
    void cut(Member other);

    /** The address at which another node finds this one, such as {@code 127.0.0.1:7800}. */
    String address();

    /** Leaves, after what was sent. The others have a view without this member soon. No event comes after it. */
    void leave() throws InterruptedException;
}
