(ns magnetar.otp.elixir
  "The test configuration of a real `elixir`: the Elixir side of the scenarios of what Elixir has beyond Erlang."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.dev.processes :as processes]
   [magnetar.otp.erl :as erl]
   [magnetar.otp.scenarios :as scenarios]))

(set! *warn-on-reflection* true)

(defn scenarios
  "The scenarios that have an Elixir side."
  []
  (filter :elixir (scenarios/table)))

(defn- function-text [{:keys [id elixir]}]
  (str "\n  def unquote(:\"" id "\")() do\n    " elixir "\n  end\n"))

(defn- source [scenarios]
  (str (slurp (io/file processes/home "core/test/resources/conformance/scenarios.exs"))
       "\ndefmodule Table do\n  import Scenarios\n"
       (apply str (map function-text scenarios))
       "end\n\nScenarios.main(Table, [" (str/join ", " (map #(str ":\"" (:id %) "\"") scenarios)) "])\n"))

(defn run
  "What the scenarios show in Elixir, from ID to value; under :text all that was printed."
  [scenarios]
  (let [folder (processes/temporary-folder)
        file (processes/write folder "scenarios.exs" (source scenarios))]
    (erl/observations (erl/output folder ["elixir" (str file)]))))
