(ns magnetar.erlang.impl.rex
  "The server `rex`, which answers requests of the module rpc that do not come by `erpc`: of C nodes, and `rpc:block_call`."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [! receive]]
   [magnetar.erlang.impl.functions :as functions]
   [magnetar.erlang.impl.nodes :as connections]
   [magnetar.erlang.impl.terms :as terms]
   [magnetar.gen-server :as gs]
   [magnetar.impl.otp.erlang :as erlang]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

;; ---- answers. Processes wait until there is room for theirs; the server, which others would wait for, never waits

(defn- to-caller
  "The two ways to answer a call."
  [from]
  {:send #(gs/reply from %)
   :tell #(connections/reply from %)})

(defn- to-process
  "The two ways to answer a message of the process."
  [pid]
  {:send #(! pid [:rex %])
   :tell #(connections/tell pid [:rex %])})

(defn- tell-instead [tell error]
  (tell [:badrpc [:EXIT [(terms/unsendable error) ()]]]))

(defn- answer
  "Answers by f, or by `tell` that the value has no term."
  [f tell value]
  (try
    (f value)
    (catch RuntimeException e (tell-instead tell e))
    (catch StackOverflowError e (tell-instead tell e))))

;; ---- calls

(defn- start
  "Starts a process that calls f with what the function returns; the reference of its monitor, or nil if there
  is no place."
  [{:keys [functions places]} module function args leader f]
  (when-some [work (functions/in-place places
                     (fn []
                       (when (instance? Pid leader)
                         (actor/group-leader (actor/self) leader))
                       (f (functions/printing #(functions/answer functions module function args)))))]
    (second (actor/spawn-opt work {:monitor true}))))

(defn- call
  "Lets a process answer a call."
  [state [module function args leader] {:keys [send tell]}]
  (if-some [ref (start state module function args leader #(answer send tell %))]
    (assoc-in state [:calls ref] tell)
    (do
      (tell [:badrpc :system_limit])
      state)))

(defn- block
  "The answer of a call that holds up all others."
  [state [module function args leader]]
  (if-some [ref (start state module function args leader #(actor/exit [::answer %]))]
    (receive
      [:DOWN ref _ _ [::answer x]] x
      [:DOWN ref _ _ why] [:badrpc [:EXIT (erlang/term why)]])
    [:badrpc :system_limit]))

(defn- handle-call [request from state]
  (let [[kind & more] (when (vector? request) request)
        {:keys [tell] :as ways} (to-caller from)]
    (case kind
      :call [:noreply (call state more ways)]
      :block_call (do (answer tell tell (block state more))
                      [:noreply state])
      [:noreply state])))

(defn- handle-cast [request {:keys [functions places] :as state}]
  (let [[kind module function args] (when (vector? request) request)]
    (when (and (= :cast kind) (sequential? args))
      (some-> (functions/in-place places #(functions/run functions module function args)) actor/spawn))
    [:noreply state]))

;; ---- messages

(defn- passed-on?
  "Sends the message to the process of this node that has the name; false if no process has it."
  [name message]
  (if-some [pid (when (keyword? name) (actor/whereis name))]
    (do
      (connections/tell pid message)
      true)
    false))

(defn- from-process
  "Handles what a process has sent by itself."
  [state from request]
  (let [[kind x y] (when (vector? request) request)
        node (keyword (actor/node))
        tell #(connections/tell from [:rex node %])]
    (case kind
      :call (call state (next request) (to-process from))
      :sbcast (do (tell (if (passed-on? x y) node [:nonexisting_name x]))
                  state)
      :send (do (when-not (passed-on? x [from y])
                  (tell [:nonexisting_name x]))
                state)
      (do (when (= :features_request request)
            (connections/tell from [:features_reply node (list :erpc)]))
          state))))

(defn- down [state ref why]
  (when-some [tell (get-in state [:calls ref])]
    (when-not (= :normal why)
      (answer tell tell [:badrpc [:EXIT (erlang/term why)]])))
  (update state :calls dissoc ref))

(defn- handle-info [message state]
  (let [[a b] (when (vector? message) message)]
    [:noreply (cond
                (and (= :DOWN a) (= 5 (count message))) (down state b (peek message))
                (and (instance? Pid a) (= 2 (count message))) (from-process state a b)
                :else state)]))

(def callbacks
  "The callbacks of the server, whose `init` gets the options of the node."
  {:init (fn [options] [:ok (assoc (select-keys options [:functions :places]) :calls {})])
   :handle-call handle-call
   :handle-cast handle-cast
   :handle-info handle-info})
