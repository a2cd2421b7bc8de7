(ns magnetar.dev.mutants
  "Puts small defects into a copy of the kernel, one at a time, and sees whether the named check finds each."
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.dev.child :as child])
  (:import
   (java.io File)))

(set! *warn-on-reflection* true)

(defn mutants
  "The list of the checkout `root`, in order."
  [root]
  (edn/read-string (slurp (io/file root "kernel/mutants/mutants.edn"))))

(defn- occurrences [text part]
  (dec (count (str/split (str text " ") (re-pattern (java.util.regex.Pattern/quote part)) -1))))

(defn- change [text {:keys [find replace]} name]
  (when-not (= 1 (occurrences text find))
    (throw (ex-info (str "Mutant `" name "`: its text occurs " (occurrences text find)
                         " times, not once. Change mutants.edn along with the kernel.")
                    {:mutant name :find find})))
  (str/replace-first text (re-pattern (java.util.regex.Pattern/quote find))
                     (java.util.regex.Matcher/quoteReplacement replace)))

(defn mutated
  "Text of the mutant's file with the defect in it."
  [source {:keys [name file also] :as mutant}]
  (reduce #(change %1 %2 name)
          (slurp (io/file source "magnetar/kernel" file))
          (cons mutant also)))

(defn copy-tree
  "Copies the Java below `from` to the folder `to`; returns `to`."
  [^File from ^File to]
  (doseq [^File f (child/java-files from)]
    (let [target (io/file to (str (.relativize (.toPath from) (.toPath f))))]
      (io/make-parents target)
      (io/copy f target)))
  to)

(defn- compile-mutant
  "Compiles the kernel with the defect in it into a new folder below `work`; returns the folder."
  [^File source ^File work mutant]
  (let [copy (io/file work "source")
        classes (io/file work "classes")]
    (copy-tree source copy)
    (spit (io/file copy "magnetar/kernel" (:file mutant)) (mutated source mutant))
    (when-let [complaint (child/compile-java [copy] classes [])]
      (throw (ex-info (str "Mutant `" (:name mutant) "` does not compile: " complaint) {:mutant (:name mutant)})))
    classes))

(def ^:private carriers
  "The number of carriers that a check is about."
  {"hand-off-fair" 1, "hand-off-together" 1, "hand-off-outside" 1, "hand-off-crowded" 2})

(defn- carriers-of [name]
  (when-some [n (carriers name)]
    [(str "-Djdk.virtualThreadScheduler.parallelism=" n)]))

(defn check
  "Runs the named check against these kernel classes; nil if it is green, else what it saw, in a line.
  `seconds` is what it may wait for a step that takes no time where all is well; a check of many steps may take four times that.
  Further options are the JVM's."
  [kernel checks name seconds & options]
  (let [{:keys [exit out]} (apply child/run [kernel checks] (* 4 (long seconds))
                                  (concat child/opens
                                          ["-Xmx600m" (str "-Dmagnetar.check.seconds=" seconds)]
                                          (carriers-of name)
                                          options
                                          ["magnetar.check.Main" name]))]
    (cond
      (= 0 exit) nil
      (= :timeout exit) "it did not end"
      (re-find #"(?m)^red " out) (re-find #"(?m)^red .*" out)
      :else (throw (ex-info (str "The check `" name "` could not run: " out) {:check name :exit exit})))))

(def seconds
  "What a step of a check may take on a mutant: those that hang do so for good."
  4)

(defn survives
  "Nil if the mutant's check finds it in the kernel below `source`, else the reason."
  [source checks mutant]
  (try
    (let [kernel (compile-mutant source (child/temp-folder "mutant") mutant)]
      ;; a race need not happen the first time
      (when-not (some (fn [_] (apply check kernel checks (:check mutant) seconds (:options mutant))) (range 10))
        (str "the check `" (:check mutant) "` does not see it")))
    (catch clojure.lang.ExceptionInfo e (ex-message e))))
