(ns magnetar.dev.shell
  "A prompt inside a process. When the process exits, says so and goes on in a new one, as Erlang's shell does."
  (:require
   [clojure.main :as main]
   [magnetar.impl.explain :refer [causes]]
   [magnetar.impl.runtime]
   [magnetar.impl.shell :as shell :refer [over?]])
  (:import
   (clojure.lang Compiler$CompilerException)
   (magnetar.kernel.report Frames)))

(set! *warn-on-reflection* true)

(defn- reading
  "Like `read`, but reads no more once the process is over; what had been read by then stays for the next one."
  [read state]
  (fn [prompt exit]
    (if-some [form (:form @state)]
      (do (swap! state dissoc :form) (first form))
      (let [form (if (or (:exit @state) (over?)) exit (read prompt exit))]
        (if (and (over?) (not (#{prompt exit} form)))
          (do (swap! state assoc :form [form]) exit)
          form)))))

(defn- bare
  "The error without its causes: a prompt prints the last cause alone."
  [^Throwable error]
  (let [^Throwable copy (ex-info (ex-message error) (ex-data error))]
    (.setStackTrace copy (.getStackTrace error))
    copy))

(defn- cause-line [^Throwable cause]
  (str "Caused by: " (or (ex-message cause) "no message") " (" (.getSimpleName (class cause)) ")"
       (some->> (first (Frames/ofProgram (.getStackTrace cause) 1)) (str " at "))))

(defn- print-failure [thrown]
  (let [sentence (first (filter #(contains? (ex-data %) :magnetar/reason) (causes thrown)))]
    (if (ex-cause sentence)
      (do (main/repl-caught (bare sentence))
          (run! println (map cause-line (remove #(instance? Compiler$CompilerException %) (rest (causes sentence))))))
      (main/repl-caught thrown))))

(defn- caught
  "Prints why a form has no value."
  [thrown]
  (binding [*out* *err*]
    (cond
      (shell/refusal-of thrown "the prompt") (println (shell/refusal-of thrown "the prompt"))
      (shell/cause-of InterruptedException thrown) (println "Interrupted.")
      :else (print-failure thrown))
    (flush)))

(defn- catching [state]
  (fn [thrown]
    (if-some [exit (shell/exit-of thrown)]
      (swap! state assoc :exit exit)
      (when-not (over?)
        (caught thrown)))))

(defn- remember
  "Keeps what the prompt was set to: the namespace, the last values."
  [state]
  (swap! state assoc :bindings (select-keys (get-thread-bindings) [#'*ns* #'*1 #'*2 #'*3 #'*e])))

(defn- restore [state init]
  (if-some [bindings (:bindings @state)]
    (run! (fn [[v value]] (var-set v value)) bindings)
    (init)))

(defn- evaluate [state]
  (fn [form]
    (try
      (eval form)
      (finally (remember state)))))

(defn- prompt-until-over
  "Returns the exit that was typed, or nil."
  [{:keys [init read] :as options} state]
  (swap! state dissoc :exit)
  (let [options (merge (dissoc options :init :read)
                       {:init #(restore state init)
                        :read (reading read state)
                        :eval (evaluate state)
                        :caught (catching state)})]
    (apply main/repl (mapcat identity options)))
  (:exit @state))

(defn- goes-on?
  "Prints why the process exited; false at the end of the input."
  [state reason]
  (let [ended (and (= :normal reason) (not (:exit @state)))]
    (when-not ended
      (println (shell/farewell reason))
      (flush))
    (not ended)))

(defn repl
  "Runs a prompt with the options of `clojure.main/repl`, :init and :read among them, to the end of the input."
  [options]
  (let [state (atom {})]
    (shell/host "shell" #(prompt-until-over options state) #(goes-on? state %))))
