(ns magnetar.gen-server.loop
  "A server at work: takes a message, calls its callback, does what that returned."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor]
   [magnetar.gen-server.behaviour :as behaviour]
   [magnetar.gen-server.host :as host :refer [guarded head]]
   [magnetar.impl.actor.language :as language]
   [magnetar.impl.runtime]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.proc-lib.report :as report]
   [magnetar.sys.system :as system])
  (:import
   (magnetar.gen_server.behaviour Behaviour)
   (magnetar.gen_server.host Failed Kind Next Server)
   (magnetar.kernel.park Exit)
   (magnetar.kernel.time Durations)))

(set! *warn-on-reflection* true)

;; ---- the end

(defn- stop
  "Ends the server. `answered` is called when terminate has been."
  ([server reason state message debug] (stop server reason state message debug nil))
  ([^Server server reason state message debug answered]
   (let [last-reason (try
                       (host/clean-up server (.-behaviour server) reason reason state)
                       (finally (when answered (answered))))]
     (when-not (report/silent? last-reason)
       (host/report-crash server (.-behaviour server) last-reason {:state state} message debug))
     (throw (Exit. last-reason)))))

;; ---- what callbacks return

(def ^:private shapes
  {:init "[:ok s], [:stop why], [:error why] or :ignore"
   :handle-call "[:reply v s], [:noreply s], [:stop why s] or [:stop why v s]"})

(defn- bad-return [^Server server callback value]
  (let [shown (language/plain value)]
    [:bad-return-value shown
     (str (name callback) " of " (host/label server) " returned " (language/text value) "; it has to return "
          (shapes callback "[:noreply s] or [:stop why s]") ", the first two with a timeout, :hibernate or [:continue x] behind.")]))

(defn- nanos
  "The nanoseconds that the server waits for the next message after a callback that returned this action; nil if it is none."
  [action]
  (if (or (nil? action) (= :hibernate action))
    Durations/INFINITE
    (host/nanos action)))

(defn- continue? [action]
  (and (vector? action) (= 2 (count action)) (= :continue (nth action 0))))

(declare interpret)

(defn- continue-with [^Server server state debug [_ argument :as message]]
  (let [handle (behaviour/callback (.-behaviour server) :handle-continue)
        value (guarded server
                       (if handle
                         (handle argument state)
                         (throw (ex-info (str "The behaviour " (host/label server) " has no handle-continue, and returned "
                                              (language/text message) ".") {}))))]
    (interpret server :handle-continue message state debug value)))

(defn- proceed
  "The server goes on after a callback that returned the state and this action."
  [^Server server callback message state debug action value]
  (let [wait (nanos action)]
    (cond
      wait (Next. state debug wait)
      (continue? action) (continue-with server state debug action)
      :else (stop server (bad-return server callback value) state message debug))))

(defn- from-of [message]
  (nth message 1))

(defn- answer [^Server server message value debug]
  (let [from (from-of message)]
    (system/reply from value)
    (when debug
      (system/note debug (.-who server) [:out value (nth from 0)]))))

(defn- quit [server callback [_ why x y :as value] message old debug]
  (case (count value)
    3 (stop server why x message debug)
    4 (if (= :handle-call callback)
        (stop server why y message debug #(system/reply (from-of message) x))
        (stop server (bad-return server callback value) old message debug))
    (stop server (bad-return server callback value) old message debug)))

(defn- interpret [^Server server callback message old debug value]
  (let [size (if (vector? value) (count value) 0)
        word (head value)]
    (cond
      (and (identical? :noreply word) (<= 2 size 3))
      (proceed server callback message (nth value 1) (when debug (system/note debug (.-who server) [:noreply (nth value 1)]))
               (nth value 2 nil) value)

      (and (identical? :reply word) (<= 3 size 4) (identical? :handle-call callback))
      (let [debug (answer server message (nth value 1) debug)]
        (proceed server callback message (nth value 2) debug (nth value 3 nil) value))

      (and (identical? :stop word)) (quit server callback value message old debug)
      (instance? Failed value) (stop server (.-reason ^Failed value) old message debug)
      :else (stop server (bad-return server callback value) old message debug))))

;; ---- messages

(defn- inform [^Server server message state]
  (if-some [handle (behaviour/callback (.-behaviour server) :handle-info)]
    (handle message state)
    (do
      (host/unexpected server message)
      [:noreply state])))

(defn- handle [^Server server message state debug]
  (let [word (head message)
        ^Behaviour behaviour (.-behaviour server)
        debug (when debug (system/note debug (.-who server) [:in message]))]
    (cond
      (identical? :magnetar/call word)
      (let [call (.-handle-call behaviour)]
        (interpret server :handle-call message state debug (guarded server (call (nth message 2) (nth message 1) state))))

      (identical? :magnetar/cast word)
      (let [cast (.-handle-cast behaviour)]
        (interpret server :handle-cast message state debug (guarded server (cast (nth message 1) state))))

      :else (interpret server :handle-info message state debug (guarded server (inform server message state))))))

(defn- change-code [^Server server state old extra]
  (if-some [change (behaviour/callback (.-behaviour server) :code-change)]
    (let [[how new :as value] (change old state extra)]
      (if (and (= :ok how) (= 2 (count value)))
        new
        (throw (ex-info (str "code-change returned " (language/text value) "; it has to return [:ok s].") {}))))
    state))

(defn face
  "What `magnetar.sys` asks a server."
  [^Server server debug]
  {:who (.-who server)
   :parent (.-parent server)
   :state-of identity
   :replaced (fn [state f] (f state))
   :change-code #(change-code server %1 %2 %3)
   :status #(host/status server (.-behaviour server) {:state %1} %2 %3)
   :terminate (fn [state reason] (stop server reason state nil debug))})

(def kind
  "The kind of server that gen-server is."
  (reify Kind
    (process [_ server message state debug] (handle server message state debug))
    (end [_ server reason state message debug] (stop server reason state message debug))
    (face [_ server debug] (face server debug))))

;; ---- the beginning

(defn enter
  "Makes this process a server with the state; does not return."
  [behaviour state {:keys [name debug action]} parent]
  (let [server (host/server kind behaviour name parent false)
        debug (system/start-debug debug)]
    (host/serve server (proceed server :init nil state debug action [:ok state action]))))

(defn- up [server debug value fail]
  (let [[word state action] (when (vector? value) value)]
    (if (and (= :ok word) (<= 2 (count value) 3) (or (nanos action) (continue? action)))
      (do
        (proc-lib/init-ack [:ok (actor/self)])
        (host/serve server (proceed server :init nil state debug action value)))
      (fail (bad-return server :init value)))))

(defn begin
  "The body of the process of a server of this kind: takes the name, calls init, serves."
  ([behaviour argument options parent] (begin kind behaviour argument options parent))
  ([kind behaviour argument options parent]
   (host/begin kind behaviour argument options parent up)))
