(ns magnetar.dev.shell
  "A prompt inside a process. When the process exits, says so and goes on in a new one, as Erlang's shell does."
  (:require
   [clojure.main :as main]
   [magnetar.impl.actor.language :as language]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.park Exit Fiber)
   (magnetar.kernel.process Pid Processes Processes$Guest Processes$Options)))

(set! *warn-on-reflection* true)

(defn over?
  "True once the process of this prompt has to exit."
  []
  (.isDoomed (Fiber/current)))

(defn- exit-of
  "The exit that the evaluation of a form ended by, or nil."
  [thrown]
  (first (filter #(instance? Exit %) (take-while some? (iterate ex-cause thrown)))))

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

(defn- catching [state]
  (fn [thrown]
    (if-some [exit (exit-of thrown)]
      (swap! state assoc :exit exit)
      (when-not (over?)
        (main/repl-caught thrown)))))

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

(defn- prompt-until-over [{:keys [init read] :as options} state]
  (swap! state dissoc :exit)
  (let [options (merge (dissoc options :init :read)
                       {:init #(restore state init)
                        :read (reading read state)
                        :eval (evaluate state)
                        :caught (catching state)})]
    (apply main/repl (mapcat identity options)))
  (some-> (:exit @state) throw))

(defn- shell-options []
  (let [options (Processes$Options.)]
    (set! (.label options) "shell")
    options))

(defn- reason-of [^Processes$Guest guest]
  (.reason (.ended ^Pid (.pid guest))))

(defn repl
  "Runs a prompt with the options of `clojure.main/repl`, :init and :read among them, to the end of the input."
  [options]
  (let [state (atom {})]
    (loop []
      (let [^Processes$Guest guest (Processes/host (shell-options) #(prompt-until-over options state))]
        (when-not (and (= :normal (reason-of guest)) (not (:exit @state)))
          (println (str "** exited: " (language/reason-text (reason-of guest))))
          (flush)
          (recur))))))
