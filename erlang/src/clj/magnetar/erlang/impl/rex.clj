(ns magnetar.erlang.impl.rex
  "The server `rex`, which answers requests of the module rpc that do not come by `erpc`: of C nodes, and `rpc:block_call`."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [! receive]]
   [magnetar.erlang.impl.functions :as functions]
   [magnetar.gen-server :as gs]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

(defn- start
  "Starts a process that answers the call by f; returns the reference of its monitor."
  [{:keys [functions]} module function args leader f]
  (second (actor/spawn-opt (fn []
                             (when (instance? Pid leader)
                               (actor/group-leader (actor/self) leader))
                             (f (functions/printing #(functions/answer functions module function args))))
                           {:monitor true})))

(defn- call
  "Answers a call by f, once it has ended."
  [state [module function args leader] f]
  (assoc-in state [:calls (start state module function args leader f)] f))

(defn- block
  "The answer of a call that holds up all others."
  [state [module function args leader]]
  (let [ref (start state module function args leader #(actor/exit [::answer %]))]
    (receive
      [:DOWN ref _ _ [::answer x]] x
      [:DOWN ref _ _ why] [:badrpc [:EXIT why]])))

(defn- handle-call [request from state]
  (let [[kind & more] (when (vector? request) request)]
    (case kind
      :call [:noreply (call state more #(gs/reply from %))]
      :block_call [:reply (block state more) state]
      [:noreply state])))

(defn- handle-cast [request {:keys [functions] :as state}]
  (let [[kind module function args] (when (vector? request) request)]
    (when (and (= :cast kind) (sequential? args))
      (actor/spawn #(functions/run functions module function args)))
    [:noreply state]))

(defn- pass-on
  "Sends to a process of this node, if there is one of the name."
  [name message else]
  (if-some [pid (actor/whereis name)]
    (! pid message)
    (else)))

(defn- from-process
  "Handles what a process has sent by itself."
  [state from request]
  (let [[kind x y] (when (vector? request) request)
        node (keyword (actor/node))
        absent #(! from [:rex node [:nonexisting_name x]])]
    (case kind
      :call (call state (next request) #(! from [:rex %]))
      :sbcast (do (pass-on x y absent)
                  (when (actor/whereis x) (! from [:rex node node]))
                  state)
      :send (do (pass-on x [from y] absent) state)
      (do (when (= :features_request request)
            (! from [:features_reply node (list :erpc)]))
          state))))

(defn- down [state ref why]
  (when-some [f (get-in state [:calls ref])]
    (when-not (= :normal why)
      (f [:badrpc [:EXIT why]])))
  (update state :calls dissoc ref))

(defn- handle-info [message state]
  (let [[a b] (when (vector? message) message)]
    [:noreply (cond
                (and (= :DOWN a) (= 5 (count message))) (down state b (peek message))
                (and (instance? Pid a) (= 2 (count message))) (from-process state a b)
                :else state)]))

(def callbacks
  "The callbacks of the server, whose `init` gets the options of the node."
  {:init (fn [{:keys [functions]}] [:ok {:functions functions :calls {}}])
   :handle-call handle-call
   :handle-cast handle-cast
   :handle-info handle-info})
