(ns magnetar.kernel.stack-test
  "A program that uses the kernel for the first time where the stack is full finds a working kernel."
  (:require
   [clojure.java.io :as io]
   [clojure.set :as set]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.dev.child :as child]
   [magnetar.kernel.checks :as checks])
  (:import
   (java.io File)
   (magnetar.kernel.inspect Startup)))

(set! *warn-on-reflection* true)

(defn- program
  "Runs the forms in a JVM of its own; returns {:exit :out}. `options` are the JVM's."
  [options & forms]
  (apply child/run (checks/class-path) 100
         (concat options ["clojure.main" "-e" (str/join " " (map pr-str (concat forms '[(System/exit 0)])))])))

(def ^:private first-use
  "Uses the kernel for the first time where the stack is full, then prints what it does on a fresh one.
  Each try is the last form of a function: elsewhere Clojure makes a class of it, which would itself be used there for the first time."
  '[(require '[magnetar.actor :as actor] '[magnetar.async :as a])
    (defn dig [op]
      (let [k (long (try (dig op) (catch StackOverflowError _ 0)))]
        (if (< k 300) (do (op) (inc k)) k)))
    (defn start []
      (try (actor/spawn list) (catch Throwable _)))
    (defn offer []
      (try (a/offer! (a/chan) 1) (catch Throwable _)))
    (doseq [op [start offer]]
      (doto (Thread. (fn [] (dig op))) (.start) (.join)))
    (let [result (promise)]
      (actor/spawn deliver result 2)
      (println [(a/<!! (a/go 1)) (deref result) (a/poll! (doto (a/chan 1) (a/offer! 3)))]))])

(defn- compiled-kernel ^File []
  (first (filter #(.isDirectory ^File (io/file % "magnetar/kernel")) (map io/file (checks/class-path)))))

(defn- class-names []
  (let [folder (.toPath (compiled-kernel))]
    (for [^File file (file-seq (compiled-kernel))
          :when (and (str/ends-with? (.getName file) ".class")
                     (not= "module-info.class" (.getName file)))]
      (-> (str (.relativize folder (.toPath file))) (str/replace #"\.class$" "") (str/replace "/" ".")))))

(deftest each-class-of-the-kernel-is-initialised-when-a-namespace-is-loaded
  (let [[compiled initialised] (map set [(class-names) (Startup/names)])]
    (is (= #{} (set/difference compiled initialised)))
    (is (= #{} (set/difference initialised compiled)))))

(deftest no-class-of-the-kernel-links-a-concatenation-or-a-switch-over-types-when-it-runs
  (is (= [] (for [^String named (class-names)
                  :when (not (str/starts-with? named "magnetar.kernel.sim."))
                  :let [file (io/file (compiled-kernel) (str (str/replace named "." "/") ".class"))
                        text (String. (java.nio.file.Files/readAllBytes (.toPath file)) "ISO-8859-1")]
                  :when (some #(str/includes? text %) ["StringConcatFactory" "SwitchBootstraps"])]
              named))))

(deftest a-recursion-that-is-the-first-to-use-the-kernel-does-not-disable-it
  (let [{:keys [exit out]} (apply program child/opens first-use)]
    (is (= [0 "[1 2 3]"] [exit (last (str/split-lines out))]))))

(def ^:private first-misuse
  "Misuses the library for the first time where the stack is full, reports an event there, then does both on a fresh one."
  '[(require '[magnetar.gen-server :as gs] '[magnetar.proc-lib.report :as report])
    (defn dig [op]
      (let [k (long (try (dig op) (catch StackOverflowError _ 0)))]
        (if (< k 200) (do (op) (inc k)) k)))
    (defn misuse []
      (try (gs/call "text" 1) (catch Throwable e (str e))))
    (defn tell []
      (try (report/tell {:event :deep :level :error}) (catch Throwable _)))
    (def quiet (java.io.PrintWriter. (java.io.Writer/nullWriter)))
    (doseq [op [misuse tell]]
      (doto (Thread. (fn [] (binding [*err* quiet] (dig op)))) (.start) (.join)))
    (report/tell {:event :afterwards :level :error})
    (println (misuse))])

(deftest a-recursion-that-is-the-first-to-misuse-the-library-or-to-report-disables-neither
  (let [{:keys [exit out]} (apply program child/opens first-misuse)]
    (is (= [0 "magnetar.MisuseException: `call` wants a server as a pid, a name, [name node], [:global name] or [:via registry name]; this is \"text\"."]
           [exit (last (str/split-lines out))])
        out)
    (is (str/includes? out "Afterwards") out)))
