(ns magnetar.dev.pit
  "Mutants that PIT makes of the kernel's sequential classes, and those that no test kills."
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.xml :as xml]
   [magnetar.dev.child :as child])
  (:import
   (java.io ByteArrayInputStream)))

(set! *warn-on-reflection* true)

(def ^:private package "magnetar.kernel.")

(def file
  "The list of classes and survivors, in the checkout."
  "kernel/mutants/sequential.edn")

(defn sequential
  "Returns what `file` holds in the checkout `root`: a map of :classes and :survivors."
  [root]
  (edn/read-string (slurp (io/file root file))))

;; --- PIT's report

(defn- inner [element]
  (into {} (map (juxt :tag (comp str/join :content))) (:content element)))

(defn- after-last-dot [s]
  (last (str/split s #"\.")))

(defn- mutant [{:keys [attrs] :as element}]
  (let [{:keys [mutatedClass mutatedMethod lineNumber mutator description]} (inner element)]
    {:class (first (str/split (str/replace-first mutatedClass package "") #"\$"))
     :method mutatedMethod
     :line (parse-long lineNumber)
     :mutator (after-last-dot mutator)
     :mutant (str/replace description #" for magnetar/.*" "")
     :status (:status attrs)}))

(defn mutants
  "Returns the mutants of a report of PIT, given as the text of its XML.
  Each is a map of :class (the outer one, without magnetar.kernel), :method, :line, :mutator, :mutant and :status."
  [^String text]
  (->> (xml/parse (ByteArrayInputStream. (.getBytes text "UTF-8")))
       :content
       (map mutant)))

(defn- source-file [root class]
  (io/file root "kernel/src/java/magnetar/kernel" (str (str/replace class "." "/") ".java")))

(defn- with-lines
  "Adds to each mutant the text of its line, which stays when lines above it come and go."
  [root mutants]
  (let [lines (memoize #(str/split-lines (slurp (source-file root %))))]
    (for [{:keys [class line] :as m} mutants]
      (assoc m :at (str/trim (get (lines class) (dec (long line)) ""))))))

;; --- survivors

(defn expand
  "Returns one map of :class, :method, :at and :mutant for each mutant that an entry of the list stands for."
  [{:keys [class methods at mutants]}]
  (for [method methods
        mutant mutants]
    {:class class :method method :at at :mutant mutant}))

(def ^:private identity-of #(select-keys % [:class :method :at :mutant]))

(def ^:private killed? (comp #{"KILLED" "TIMED_OUT" "MEMORY_ERROR" "NON_VIABLE"} :status))
(def ^:private survived? (comp #{"SURVIVED" "NO_COVERAGE"} :status))

(defn- title [{:keys [class method line mutator mutant at]}]
  (str "mutant of " class "/" method
       (if line
         (str ", line " line ", by " mutator " (" mutant ")")
         (str " at `" at "` (" mutant ")"))))

(defn- beyond
  "The items of which there are more than in the list `others`, each as often as that."
  [items others]
  (let [allowed (frequencies (map identity-of others))]
    (mapcat (fn [[id same]] (drop (get allowed id 0) same))
            (group-by identity-of items))))

(defn- verdict [class mutants complaints]
  (let [killed (count (filter killed? mutants))
        failed (remove #(or (killed? %) (survived? %)) mutants)]
    [(str "mutants of " class ": " killed " of " (count mutants) " killed")
     (cond
       (empty? mutants) (str "PIT made none: correct the class in " file ".")
       (zero? killed) "no test kills any: is there a test of the class in kernel/pit?"
       (seq failed) (str "PIT could not run " (count failed) " of them: " (str/join ", " (distinct (map :status failed))))
       (seq complaints) (str (count complaints) " differ from " file ", see above"))]))

(defn findings
  "Compares the mutants of a class with the list of survivors.
  Returns pairs of a title and a complaint, which is nil if all is well; the last pair is about the class."
  [class mutants survivors]
  (let [listed (mapcat expand survivors)
        ;; one that is listed may also run out of time, on a busy machine
        complaints (concat
                     (for [m (beyond (filter survived? mutants) listed)]
                       [(title m) (str "it survives. Write a test in kernel/pit that sees it, or list it in " file " with the reason.")])
                     (for [m (beyond listed (remove #(= "KILLED" (:status %)) mutants))]
                       [(title m) (str "it does not survive any more, or does not exist. Take it out of " file ".")]))]
    (concat complaints [(verdict class mutants complaints)])))

;; --- running PIT

(def ^:private mutators
  ["DEFAULTS" "REMOVE_CONDITIONALS" "EXPERIMENTAL_ARGUMENT_PROPAGATION" "EXPERIMENTAL_MEMBER_VARIABLE"])

(defn- patterns [classes]
  (str/join "," (mapcat #(vector (str package %) (str package % "$*")) classes)))

(defn- options [kernel tests report classes]
  {"classPath" (str kernel "," tests)
   "mutableCodePaths" kernel
   "sourceDirs" kernel ; it wants one, for a report in HTML
   "reportDir" report
   "targetClasses" (patterns classes)
   "targetTests" (str/join "," (map #(str package % "*Test") (distinct (map #(first (str/split % #"\.")) classes))))
   "mutators" (str/join "," mutators)
   "avoidCallsTo" "magnetar.kernel.fiber.Simulated"
   "outputFormats" "XML"
   "timestampedReports" "false"
   "failWhenNoMutations" "false"
   "mutationUnitSize" "25" ; the units are what its two threads share
   "threads" "2"
   "timeoutConst" "2000"
   "timeoutFactor" "2"
   "jvmArgs" (str/join "," (concat child/opens ["-Xmx300m" "-XX:+UseSerialGC" "-XX:TieredStopAtLevel=1"]))})

(defn- report
  "Runs PIT. Returns the text of its report, or throws with what it printed."
  [kernel tests class-path seconds classes]
  (let [folder (child/temp-folder "pit")
        words (mapcat (fn [[option value]] [(str "--" option) (str value)]) (options kernel tests folder classes))
        {:keys [exit out]} (apply child/run (list* kernel tests class-path) seconds
                                  "-Xmx400m" "org.pitest.mutationtest.commandline.MutationCoverageReport" words)
        text (io/file folder "mutations.xml")]
    (if (and (= 0 exit) (.exists text))
      (slurp text)
      (throw (ex-info (str "PIT ended with " exit ": " out) {:exit exit})))))

(defn- without-jopt
  "The class path without the jopt-simple of jcstress: PIT brings a newer one in its own jar."
  [class-path]
  (remove #(str/includes? % "jopt-simple") class-path))

(defn prove
  "Runs PIT on the listed classes of the checkout `root`.
  `kernel` and `tests` are folders with the compiled classes. Returns pairs as `findings` does. With `quick?` only the
  classes marked `:quick` are mutated."
  [root kernel tests class-path quick?]
  (let [{:keys [classes survivors]} (sequential root)
        classes (if quick? (filter :quick classes) classes)
        all (try
              (with-lines root (mutants (report kernel tests (without-jopt class-path) (if quick? 600 2400) (map :class classes))))
              (catch clojure.lang.ExceptionInfo e (ex-message e)))]
    (if (string? all)
      [["PIT" all]]
      (mapcat (fn [{:keys [class without]}]
                (findings class
                          (filter #(and (= class (:class %)) (not-any? #{(:method %)} without)) all)
                          (filter #(= class (:class %)) survivors)))
              classes))))
