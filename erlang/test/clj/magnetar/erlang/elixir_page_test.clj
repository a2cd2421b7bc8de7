(ns magnetar.erlang.elixir-page-test
  "The programs of the page about Elixir supervise each other, in a run with --with-erl."
  {:wakes false
   :limit 180000}
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor]
   [magnetar.dev.guide :as guide]
   [magnetar.dev.processes :as processes]
   [magnetar.erlang :as erlang]
   [magnetar.erlang.beam :as beam]
   [magnetar.erlang.scripted :refer [eventually logged quietly]]
   [magnetar.gen-server :as gs]))

(set! *warn-on-reflection* true)

(def ^:private page "docs/guide/elixir.md")

(def ^:private there "prices@127.0.0.1")

(defn- block
  "The first block of the page in the language."
  [language]
  (second (re-find (re-pattern (str "(?s)```" language "\n(.*?)```")) (slurp (io/file processes/home page)))))

(defn- start-script
  "Runs the command of the page where its script is, and returns the program of Elixir once its supervisor has started its child here."
  [port]
  (let [folder (processes/temporary-folder)]
    (processes/write folder "prices.exs" (block "elixir"))
    (let [elixir (beam/begin-elixir folder port (str/split (str/trim (block "sh")) #" "))]
      (is (eventually #(actor/whereis :stock)))
      elixir)))

(defn- prices []
  (let [pid (erlang/call there :erlang :whereis [:Elixir.Prices])]
    (when-not (= :undefined pid) pid)))

(defn- another? [find pid]
  (eventually #(let [now (find)] (and now (not= pid now)))))

(defn- started-again? [find]
  (let [pid (find)]
    (actor/exit pid :kill)
    (another? find pid)))

(defn- kill-and-look []
  (let [stock #(actor/whereis :stock)
        old [(stock) (prices)]]
    (is (true? (erlang/disconnect there)))
    (is (another? stock (first old)) "after a lost connection too")
    (is (another? prices (second old)))
    (is (started-again? stock))
    (is (started-again? prices)))
  (is (= [:ok 6] (gs/call :stock [:take "tea" 1])))
  (is (= [:ok 12] (gs/call [:Elixir.Prices there] [:price "tea"])))
  (actor/exit (actor/whereis :top) :kill)
  (is (eventually #(nil? (prices))) "a child there ends with its supervisor here")
  (actor/exit (erlang/call there :erlang :whereis [:Elixir.Top]) :kill)
  (is (eventually #(nil? (actor/whereis :stock))) "and one here with its supervisor there"))

(defn- run-page
  "Runs the page, whose node uses the EPMD at the port. The script is run when this JVM is a node."
  [port]
  (let [start erlang/start
        elixir (atom nil)]
    (try
      (with-redefs [erlang/start (fn [options]
                                   (let [started (start (assoc options :epmd port))]
                                     (reset! elixir (start-script port))
                                     started))]
        (guide/run-page page (fn [examples]
                               (actor/with-process {:trap-exit true}
                                 (examples)
                                 (kill-and-look)))))
      (finally
        (erlang/stop)
        (remove-ns 'shop.stock)
        (some-> @elixir beam/end-beam)))))

(deftest the-programs-of-the-page-supervise-each-other
  (when (beam/elixir?)
    (let [port (beam/free-port)
          epmd (beam/start-epmd port)]
      (try
        (logged (fn [_] (quietly #(is (= 2 (run-page port))))))
        (finally (beam/end epmd))))))
