(ns magnetar.dev.lint.reflection
  "Compiles every source and collects the compiler's warnings about reflection and boxed math."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.dev.lint.sources :as sources])
  (:import
   (clojure.lang LineNumberingPushbackReader)
   (java.io PushbackReader StringWriter)))

(set! *warn-on-reflection* true)

(defn- warnings-of
  "Text that the compiler prints to *err* while `compile` runs with the warnings on."
  [math compile]
  (let [printed (StringWriter.)]
    (binding [*err* printed
              *warn-on-reflection* true
              *unchecked-math* math]
      (compile))
    (str printed)))

(defn- namespace-file?
  "Is `file` what (require ns-name) loads? A program's file is not, even when it has an ns form."
  [file ns-name]
  (= (io/resource (str (str/replace (str/replace (str ns-name) "." "/") "-" "_") ".clj"))
     (.toURL (.toURI (io/file sources/*root* file)))))

;; A program's file acts when it is loaded. What only defines is evaluated, the rest is compiled and not run.
(def ^:private defining
  '#{ns require import set! declare def defn defn- defmacro defonce defmulti defmethod defprotocol defrecord deftype})

(defn- compile-form [form]
  (if (and (seq? form) (defining (first form)))
    (eval form)
    (eval (list 'fn* [] form))))

(defn- compile-program [file]
  (with-open [reader (LineNumberingPushbackReader. (io/reader (io/file sources/*root* file)))]
    (binding [*ns* (create-ns (gensym "program")) *file* file]
      (refer-clojure)
      (loop []
        (let [form (read {:eof reader} reader)]
          (when-not (identical? form reader)
            (compile-form form)
            (recur)))))))

(defn- compile-source [{:keys [file name]}]
  (cond
    (and name (namespace-file? file name)) (require name :reload)
    :else (compile-program file)))

(defn- parse-warning [file line]
  (when-let [[_ kind place number message] (re-matches #"(Reflection|Boxed math) warning, (.+?):(\d+):\d+ - (.*)" line)]
    (when (str/ends-with? file place)
      {:file file :line (parse-long number) :message (str (str/lower-case kind) ": " message)})))

(defn- load-failure [file ^Throwable e]
  {:file file
   :line (:clojure.error/line (ex-data e))
   :message (str "does not load: " (ex-message (or (ex-cause e) e)))})

(defn- source-findings [math {:keys [file] :as source}]
  (try
    (keep #(parse-warning file %) (str/split-lines (warnings-of math #(compile-source source))))
    (catch Throwable e [(load-failure file e)])))

(defn- test-file?
  "Is it below a folder of tests? `magnetar/test/clock.clj` in a folder of sources is not."
  [file]
  (re-find #"/test/" (str/replace file #"/src/.*" "")))

(defn- no-code?
  "The file of literals for the reader is a map of names."
  [file]
  (str/ends-with? file "/data_readers.clj"))

(defn- source [file]
  {:file file :name (second (sources/declaration file))})

(defn- warnings [math folders]
  (->> (mapcat #(sources/files % ".clj") folders)
       (remove (some-fn test-file? no-code?))
       (mapcat #(source-findings math (source %)))
       distinct))

(defn findings
  "Warnings about reflection and boxed math in the Clojure files below `folders`, tests left out.
  A file that does not load is a finding, too."
  [folders]
  (warnings :warn-on-boxed folders))

(defn reflection-findings
  "As `findings`, about reflection only: for programs that show what users write."
  [folders]
  (warnings false folders))
