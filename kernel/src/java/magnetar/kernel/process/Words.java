package magnetar.kernel.process;

import magnetar.kernel.fiber.Exit;

/**
 * The dialect in use: its {@link Language}, and its constants, made once. Set before the first process
 * starts.
 */
public final class Words {
    // Set or read by any thread.
    private static volatile Words words = new Words(new Language() {});

    final Language language;
    final Object normal;
    final Object kill;
    final Object killed;
    final Object noproc;
    final Object down;
    final Object noMemory;

    private Words(Language language) {
        this.language = language;
        this.normal = language.constant("normal");
        this.kill = language.constant("kill");
        this.killed = language.constant("killed");
        this.noproc = language.constant("noproc");
        this.down = language.constant("DOWN");
        this.noMemory = language.noMemory();
    }

    static Words get() {
        return words;
    }

    static Language language() {
        return words.language;
    }

    /** Uses this language from now on. */
    public static void speak(Language language) {
        words = new Words(language);
        Exit.setWords(language::text);
    }
}
