package magnetar.stress;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeSet;
import java.util.regex.Pattern;

/**
 * Runs every jcstress test, {@code quick} or {@code full}, and prints {@code ok TITLE} or {@code FAIL TITLE}
 * for each. Quick uses one mode of the compiler, full uses all modes that jcstress finds.
 */
public final class Main {
    private static final Pattern NAME = Pattern.compile("(magnetar\\.stress\\.[A-Za-z]+)\\$([A-Za-z]+)");

    private Main() {}

    public static void main(String[] args) throws IOException {
        boolean quick = args.length == 0 || args[0].equals("quick");
        String out = run(quick);
        boolean failed = false;
        for (String test : tests()) {
            boolean red = out.contains("[FAILED] " + test + "\n") || out.contains("[ERROR] " + test + "\n");
            boolean ran = red || out.contains("[OK] " + test + "\n");
            boolean control = test.contains(".Controls.");
            boolean good = ran && red == control;
            failed |= !good;
            System.out.println((good ? "ok " : "FAIL ") + "jcstress: " + test.substring("magnetar.stress.".length())
                    + (control ? ", a control, shows what is forbidden" : "") + (ran ? "" : ", which did not run"));
        }
        if (failed) {
            System.out.println(out);
        }
        System.exit(failed ? 1 : 0);
    }

    private static TreeSet<String> tests() throws IOException {
        try (InputStream list = Main.class.getResourceAsStream("/META-INF/TestList")) {
            TreeSet<String> names = new TreeSet<>();
            NAME.matcher(new String(list.readAllBytes(), StandardCharsets.UTF_8)).results()
                    .forEach(m -> names.add(m.group(1) + "." + m.group(2)));
            return names;
        }
    }

    /** What jcstress prints. It throws when a test fails, as the controls do. */
    private static String run(boolean quick) throws IOException {
        List<String> options = new ArrayList<>(List.of("-v", "-t", "magnetar.stress.*", "-f", "1", "-iters", quick ? "1" : "2",
                "-time", quick ? "300" : "500", "-sc", "false", "-af", "NONE", "-hs", "128",
                "-r", Files.createTempDirectory("jcstress").toString()));
        if (quick) {
            options.addAll(Arrays.asList("-jvmArgs", "-Xms64m"));
        }
        PrintStream before = System.out;
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        System.setOut(new PrintStream(text, true, StandardCharsets.UTF_8));
        try {
            org.openjdk.jcstress.Main.main(options.toArray(new String[0]));
        } catch (Throwable e) {
            System.out.println(e);
        } finally {
            System.setOut(before);
        }
        return text.toString(StandardCharsets.UTF_8);
    }
}
