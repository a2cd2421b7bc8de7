(ns magnetar.erlang.impl.user
  "The server `user`, the group leader of processes that run on BEAMs for this node. It prints what they print."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [!]]
   [magnetar.erlang.impl.functions :as functions]
   [magnetar.erlang.impl.nodes :as connections]
   [magnetar.erlang.impl.remote :as remote]
   [magnetar.impl.runtime])
  (:import
   (java.nio.charset StandardCharsets)
   (magnetar.etf ImproperList)
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

;; ---- text

(defn- append
  "Adds characters as Erlang has them: a binary, a code point, or a list of such, whose tail may be a binary."
  [^StringBuilder out encoding x]
  (cond
    (string? x) (.append out ^String x)
    (integer? x) (.appendCodePoint out (int x))
    (bytes? x) (.append out (String. ^bytes x (if (= :latin1 encoding) StandardCharsets/ISO_8859_1 StandardCharsets/UTF_8)))
    (sequential? x) (run! #(append out encoding %) x)
    (instance? ImproperList x) (do (append out encoding (.items ^ImproperList x))
                                   (append out encoding (.tail ^ImproperList x)))
    :else (throw (IllegalArgumentException. "This is no text."))))

(defn- text [encoding x]
  (str (doto (StringBuilder.) (append encoding x))))

(defn- put [encoding x]
  (print (text encoding x))
  (flush)
  :ok)

;; ---- requests

(def ^:private format-ms 5000)

(defn- formatted
  "What the function returns, such as io_lib:format, on the node of the process that prints."
  [from module function args]
  (let [end (remote/call (actor/node from) module function args (* 1000000 (long format-ms)))]
    (if (= :return (first end))
      (second end)
      (throw (ex-info "The text to print was not made." {:end end})))))

(declare answer)

(defn- answer-all [from requests]
  (reduce (fn [_ request]
            (let [x (answer from request)]
              (if (and (vector? x) (= :error (first x))) (reduced x) x)))
          :ok
          requests))

(defn- answer
  "Does what the request says, and returns the answer. Nothing can be read from here."
  [from request]
  (let [[kind a b c d] (when (vector? request) request)]
    (case [kind (if (vector? request) (count request) 0)]
      [:put_chars 3] (put a b)
      [:put_chars 2] (put :latin1 a)
      [:put_chars 5] (put a (formatted from b c d))
      [:put_chars 4] (put :latin1 (formatted from a b c))
      [:requests 2] (answer-all from a)
      (if (#{:get_line :get_chars :get_until :get_password} kind)
        :eof
        [:error :request]))))

(defn- answer-to [from ref request]
  (! from [:io_reply ref (try
                           (answer from request)
                           (catch Exception _ [:error :put_chars])
                           (catch StackOverflowError _ [:error :put_chars]))]))

;; A process waits for its answer before it prints again. So its text stays in order, though each request has a process here.
(defn- handle-info [message {:keys [places] :as state}]
  (let [[kind from ref request] (when (vector? message) message)]
    (when (and (= :io_request kind) (= 4 (count message)) (instance? Pid from))
      (if-some [work (functions/in-place places #(answer-to from ref request))]
        (actor/spawn work)
        (connections/tell from [:io_reply ref [:error :terminated]])))
    [:noreply state]))

(def callbacks
  "The callbacks of the server, whose `init` gets the options of the node."
  {:init (fn [{:keys [places]}] [:ok {:places places}])
   :handle-call (fn [_ from state]
                  (connections/reply from [:error :request])
                  [:noreply state])
   :handle-cast (fn [_ state] [:noreply state])
   :handle-info handle-info})
