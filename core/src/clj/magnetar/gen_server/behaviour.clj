(ns magnetar.gen-server.behaviour
  "The callbacks of a gen-server."
  {:no-doc true}
  (:require
   [magnetar.impl.otp.behaviour :as behaviour]
   [magnetar.impl.runtime])
  (:import
   (magnetar.impl.otp.behaviour Behaviour)))

(set! *warn-on-reflection* true)

(def ^:private some-callbacks
  {:kind "a server"
   :required [:init]
   :expected [:handle-call :handle-cast]
   :optional [:handle-info :handle-continue :terminate :code-change :format-status]
   :arguments '{:init [argument], :handle-call [request from state], :handle-cast [message state], :handle-info [message state]
                :handle-continue [argument state], :terminate [reason state], :code-change [old state extra], :format-status [status]}})

(def ^:private of-gen-server
  (assoc some-callbacks :whole (assoc some-callbacks :required [:init :handle-call :handle-cast] :expected [])))

(def ^:private examples
  {:handle-call "(fn [request from state] [:reply answer state])"
   :handle-cast "(fn [message state] [:noreply state])"
   :handle-continue "(fn [argument state] [:noreply state])"})

(defn without
  "Throws the error of a server that was asked for what it has no callback for: [:undef [label word] sentence]."
  [label source word what]
  (let [sentence (str "The callback module " label " has no " (name word) ", and got " what ". Give it one, as in "
                      (examples word) "." (behaviour/place source))]
    (throw (ex-info sentence {:magnetar/reason :magnetar/missing-callback
                              :missing word
                              :magnetar/exit [:undef [label word] sentence]}))))

;; The last map that a server was started with: a million servers of one map share what was made of it. A map does not change.
(def ^:private latest (atom nil))

(defn behaviour
  "The callback module of a gen-server, checked."
  ^Behaviour [x]
  (let [^Behaviour shared @latest]
    (cond
      (instance? Behaviour x) x
      (not (map? x)) (behaviour/of-kind of-gen-server x)
      (and shared (identical? x (.-source shared))) shared
      :else (reset! latest (behaviour/of-kind of-gen-server x)))))
