(ns magnetar.mistakes-test
  "The likely mistakes of a newcomer: what each program prints says what is wrong, where, and what to do, in at most a screen.

  The programs and what they print are in core/test/resources/mistakes; run with -Dmagnetar.goldens=write to write what they print now, and read it."
  {:wakes false
   :limit 120000}
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.dev.child :as child]
   [magnetar.mistakes :as mistakes]))

(set! *warn-on-reflection* true)

(def ^:private folder "core/test/resources/mistakes")

(def ^:private most-lines 40)
(def ^:private most-columns 1200)

(defn- masked
  "What differs between runs and machines is left out: pids, references, times, folders, counts of frames."
  [text]
  (-> text
      (str/replace #"\d+\.\d+\.\d+(?= [^\"]*\"|\")" "PID")
      (str/replace #"process \d+\.\d+\.\d+" "process PID")
      (str/replace #"#magnetar/ref \"\d+\.\d+\"" "#magnetar/ref \"REF\"")
      (str/replace #"(?m)^\w+ \d+, \d+,? .*(AM|PM) magnetar$" "DATE magnetar")
      (str/replace #"[^\s(]*/core/test/resources/mistakes/" "")
      (str/replace #"(?m)^    at magnetar.mistakes/.*\n?" "")
      (str/replace #"and \d+ frames" "and N frames")
      (str/replace #"\d+ times more" "N times more")
      ;; The JVM keeps the innermost 1,024 frames. Whether one of Clojure is among them depends on where the stack ended.
      (str/replace #"(N times more\))\n    \(and \S+ frames? of Clojure, Magnetar and the JDK\)" "$1")
      ;; A stack ends at the entry of a function as often as at the call in it.
      (str/replace #"(?m)^    at (\S+) \([^)]*\)\n(    at \1 \([^)]*\)\n    \(the line above)" "$2")
      (str/replace #"(fn|eval)__?\d+" "$1")
      str/trim))

(defn- printed
  "What each program prints, by its name."
  []
  (let [class-path (str/split (System/getProperty "java.class.path") #":")
        {:keys [out]} (apply child/run (map #(.getAbsolutePath (io/file %)) class-path) 100
                             [(str "@" (.getAbsolutePath (io/file "kernel/java.options"))) "clojure.main" "-m" "magnetar.mistakes"
                              (.getAbsolutePath (io/file folder))])]
    (into {} (for [part (rest (str/split (str "\n" out) (re-pattern (str "\n" mistakes/mark))))
                   :let [[name text] (str/split part #"\n" 2)]]
               [name (masked (str text))]))))

(defn- golden [name]
  (io/file folder (str/replace name #"\.clj$" ".txt")))

(defn- write-goldens [outputs]
  (doseq [[name text] outputs]
    (spit (golden name) (str text "\n"))))

(deftest each-mistake-prints-what-is-wrong-where-and-what-to-do
  (let [outputs (printed)]
    (when (= "write" (System/getProperty "magnetar.goldens"))
      (write-goldens outputs))
    (is (= (map #(.getName ^java.io.File %) (mistakes/programs folder)) (sort (keys outputs))))
    (doseq [[name text] (sort outputs)]
      (testing name
        (is (= (str/trim (slurp (golden name))) text))
        (is (<= (count (str/split-lines text)) (long most-lines)))
        (is (every? #(<= (count %) (long most-columns)) (str/split-lines text)))
        (is (str/includes? text (str name ":")) "the file and the line of the mistake")))))
