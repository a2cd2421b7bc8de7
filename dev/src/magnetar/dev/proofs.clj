(ns magnetar.dev.proofs
  "bin/magnetar proofs [--quick]: checks of the kernel, faults that they must find, mutants of PIT, Lincheck, jcstress."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.dev.child :as child]
   [magnetar.dev.faults :as faults]
   [magnetar.dev.pit :as pit]))

(set! *warn-on-reflection* true)

;; {:passed n :failed n}
(def ^:private counts (atom {:passed 0 :failed 0}))

(defn- note
  "Counts one proof and prints its line; `complaint` is nil if it holds."
  [title complaint]
  (swap! counts update (if complaint :failed :passed) inc)
  (println (str (if complaint "FAIL " "ok   ") title (when complaint (str ": " complaint))))
  (flush))

(defn- compiled
  "The folder with the classes of `from`, made now; notes a failure and returns nil if it does not compile."
  [title from class-path & options]
  (let [classes (child/temp-folder "proofs")
        complaint (apply child/compile-java from classes class-path options)]
    (if complaint
      (note (str title " compiles") complaint)
      classes)))

;; --- checks and faults

(defn- check-names [quick?]
  (let [slow #{"stress-long" "stress-10000" "blockers-100000" "mailbox-stress-10000" "mailbox-stress-long" "storm-1000000" "deaths-leave-nothing-1000000"}
        text (slurp (io/file (System/getProperty "magnetar.home") "kernel/test/java/magnetar/check/Main.java"))
        all (map second (re-seq #"Map\.entry\(\"([a-z0-9-]+)\"" text))]
    (if quick? (remove slow all) all)))

(def ^:private of-waking
  "The checks that are run with both ways to wake a fiber."
  ["wake-up" "publication" "crossing" "stress" "mailbox-wake-up" "mailbox-stress" "signals" "storm"
   "hand-off-bound" "hand-off-crowded" "hand-off-lost" "hand-off-ring" "fairness-pairs" "computing"])

(def ^:private no-hand-off "-Dmagnetar.hand-off=false")

(defn- prove-checks [kernel checks quick?]
  (doseq [name (check-names quick?)]
    (note (str "check " name) (faults/check kernel checks name (if (re-find #"-1000000$" name) 120 30))))
  (doseq [name of-waking]
    (note (str "check " name " without hand-off") (faults/check kernel checks name 30 no-hand-off))))

(defn- prove-controls
  "The kernel as it is holds within the seconds that a faulty one has: a slow check is not taken for one that finds a fault."
  [root kernel checks]
  (doseq [name (distinct (mapcat :checks (faults/faults root)))]
    (note (str "control " name) (faults/check kernel checks name faults/seconds)))
  (doseq [name (mapcat :without-hand-off (faults/faults root))]
    (note (str "control " name " without hand-off") (faults/check kernel checks name faults/seconds no-hand-off))))

(defn- prove-faults [root kernel checks]
  (doseq [{:keys [fault without-hand-off] names :checks} (faults/faults root)]
    (doseq [name names]
      (note (str "fault " fault " is found by " name) (faults/unseen kernel checks name fault)))
    (doseq [name without-hand-off]
      (note (str "fault " fault " is found by " name " without hand-off") (faults/unseen kernel checks name fault no-hand-off)))))

;; --- programs with a line per proof

(defn- note-lines
  "Counts the lines `ok TITLE` and `FAIL TITLE: WHY` that a program printed; a program without any has failed."
  [title {:keys [exit out]}]
  (let [lines (keep #(re-matches #"(ok|FAIL) +(.*)" %) (str/split-lines out))]
    (doseq [[_ verdict text] lines]
      (note text (when (= "FAIL" verdict) "see above")))
    (when-not (= 0 exit) (println out))
    (when (or (empty? lines) (not= 0 exit))
      (note title (str "it ended with " exit ": " (last (str/split-lines (str "nothing printed\n" out))))))))

(defn- library-path []
  (remove str/blank? (str/split (System/getProperty "java.class.path") #":")))

(defn- prove-program
  "Compiles the Java below `folder` and runs its main class."
  [kernel folder title seconds options main & args]
  (when-let [classes (compiled title [folder] (cons kernel (library-path)) "-proc:full")]
    (note-lines title (apply child/run (list* kernel classes (library-path)) seconds (concat options [main] args)))))

(defn- prove-mutants [root kernel quick?]
  (when-let [tests (compiled "the tests of PIT" [(io/file root "kernel/pit/java")] (cons kernel (library-path)))]
    (run! (fn [[title complaint]] (note title complaint))
          (pit/prove root kernel tests (library-path) quick?))))

(defn- prove-all [root quick?]
  (let [source #(io/file root "kernel" %)]
    (when-let [kernel (compiled "the kernel" [(source "src/java")] [])]
      (when-let [checks (compiled "the checks" [(source "test/java")] [kernel])]
        (prove-checks kernel checks quick?)
        (when-not quick? (prove-controls root kernel checks))
        (prove-faults root kernel checks))
      (prove-mutants root kernel quick?)
      (prove-program kernel (source "lincheck/java") "Lincheck" (if quick? 800 1600)
                     ["-Xmx1g"] "magnetar.lincheck.Main" (if quick? "quick" "full"))
      (prove-program kernel (source "stress/java") "jcstress" (if quick? 240 1200)
                     ["-Xmx512m"] "magnetar.stress.Main" (if quick? "quick" "full")))))

(defn -main
  "Runs every proof and ends with their number; exit 1 if one failed. `--quick` keeps to a few minutes."
  [& options]
  (when-not (contains? #{nil ["--quick"]} options)
    (println (str "`proofs` takes nothing or --quick, not `" (str/join " " options) "`."))
    (System/exit 2))
  (prove-all (System/getProperty "magnetar.home") (some? options))
  (let [{:keys [passed failed]} @counts]
    (println (str "proofs: " passed " passed, " failed " failed"))
    (flush)
    (System/exit (if (zero? (long failed)) 0 1))))
