(ns magnetar.otp.erl
  "The test configuration of a real `erl`: the Erlang side of all scenarios, in one node without a network."
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.dev.processes :as processes]
   [magnetar.otp.scenarios :as scenarios])
  (:import
   (java.util List)
   (java.util.concurrent TimeUnit)))

(set! *warn-on-reflection* true)

(def ^:private limit-seconds 240)

(defn wanted?
  "True if the run was told, by --with-erl, to use Erlang and Elixir too."
  []
  (= "true" (System/getProperty "magnetar.erl")))

(defn available?
  "Is there the program, `erl`, in the folders of the path, which is the PATH?"
  ([] (available? "erl"))
  ([program] (available? program (or (System/getenv "PATH") "")))
  ([program path] (boolean (some #(.canExecute (io/file % program)) (str/split path #":")))))

(defn scenarios
  "The scenarios that have an Erlang side."
  []
  (filter :erl (scenarios/table)))

(defn expected
  "What Erlang has to show."
  [scenario]
  (get scenario :erl-expect (:expect scenario)))

(defn- function-text [{:keys [id erl]}]
  (str "\n'" id "'() ->\n    " erl ".\n"))

(defn- source [scenarios]
  (apply str (slurp (io/file processes/home "core/test/resources/conformance/scenarios.erl"))
         (map function-text scenarios)))

(defn- command [file scenarios]
  (let [names (str/join "," (map #(str "'" (:id %) "'") scenarios))]
    ["erl" "-noshell" "-kernel" "logger_level" "none" "-eval"
     (str "case compile:file(\"" file "\", [binary, report_errors]) of "
          "{ok, M, B} -> code:load_binary(M, \"scenarios\", B), scenarios:main([" names "]); "
          "_ -> halt(1) end.")]))

(defn output
  "What the program prints; it is ended when the time is over."
  [folder words]
  (let [builder (doto (ProcessBuilder. ^List words) (.directory folder) (.redirectErrorStream true))
        process (.start builder)
        text (future (slurp (.getInputStream process)))]
    (when-not (.waitFor process (long limit-seconds) TimeUnit/SECONDS)
      (.destroyForcibly process))
    @text))

(defn- observation [line]
  (try
    (edn/read-string line)
    (catch RuntimeException _ nil)))

(defn observations
  "What the lines of the text tell of scenarios, from ID to value; under :text all of it."
  [text]
  (into {:text text} (filter vector?) (map observation (str/split-lines text))))

(defn run
  "What the scenarios show in Erlang, from ID to value; under :text all that was printed."
  [scenarios]
  (let [folder (processes/temporary-folder)
        file (processes/write folder "scenarios.erl" (source scenarios))]
    (observations (output folder (command file scenarios)))))
