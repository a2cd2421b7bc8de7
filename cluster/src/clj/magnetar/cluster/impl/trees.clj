(ns magnetar.cluster.impl.trees
  "Trees of the other nodes, for `bin/magnetar inspect --nodes`; and the server that shows them the tree of this node.

  The server knows one request, which has no argument. Its answer is text of a bounded size. It makes that so seldom
  that it takes at most a tenth of a thread's time, however often others ask."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.cluster.impl.status :as status]
   [magnetar.gen-server :as gs]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.inspect.snapshot :as snapshot]
   [magnetar.impl.inspect.tree :as tree]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang ExceptionInfo)
   (magnetar TimeoutException)))

(set! *warn-on-reflection* true)

(def server-name
  "The name of the server."
  :magnetar.cluster/trees)

;; ---- bounds

(def ^:private most-lines 500)
(def ^:private longest-line 200)
(def ^:private most-nodes 100)

(defn- cleaned
  "The line, not too long, and without characters that a terminal could take for commands."
  [line]
  (let [line (str/replace line #"[^\p{Print}\p{L}\p{N}]" "?")]
    (if (< (long longest-line) (count line))
      (str (subs line 0 (- (long longest-line) 2)) "..")
      line)))

(defn bounded
  "The lines of the text that are shown, as a vector."
  [text]
  (let [lines (str/split-lines (subs text 0 (min (count text) (* 2 (long most-lines) (long longest-line)))))
        more (- (count lines) (long most-lines))]
    (cond-> (mapv cleaned (take most-lines lines))
      (pos? more) (conj ".. and more"))))

;; ---- the server

(defn- tree-now []
  (bounded (tree/text (tree/tree (snapshot/now) tree/usual-limit))))

(defn- fresh? [{:keys [until]}]
  (and until (< (clock/now) (long until))))

(defn- renewed
  "The state with a tree that is fresh enough."
  [state]
  (if (fresh? state)
    state
    (let [start (clock/now)
          lines (tree-now)
          end (clock/now)]
      {:lines lines :until (+ end (max 1000000000 (* 9 (- end start))))})))

(def ^:private callbacks
  {:init (fn [_] [:ok {}])
   :handle-call (fn [request _ state]
                  (if (= :tree request)
                    (let [state (renewed state)]
                      [:reply [:tree (:lines state)] state])
                    [:reply [:error :unknown-request] state]))
   :handle-cast (fn [_ state] [:noreply state])
   :handle-info (fn [_ state] [:noreply state])})

(defn start-link
  "Starts the server; returns its pid."
  []
  (second (gs/start-link callbacks nil {:name server-name})))

;; ---- asking

(def ^:private limit-ms
  "How long the others may take."
  3000)

(defn- ask [node]
  (try
    (let [[how lines] (gs/call [server-name node] :tree {:timeout limit-ms})]
      (when (and (= :tree how) (vector? lines) (every? string? lines))
        {:lines (bounded (str/join "\n" lines))}))
    (catch TimeoutException _ nil)
    (catch ExceptionInfo _ {:lines []}))) ; it is no longer connected, or has no such server

(defn- begin-ask
  "A process that asks the node, and tells the present process. It waits for room too, where the queue to the node is full."
  [ref node]
  (let [me (self)]
    (actor/spawn #(! me [ref node (ask node)]))))

(defn- gathered
  "The answers that have come until all have or the time is over, by node; nil of a node that was asked and is silent."
  [ref n deadline]
  (loop [answers {}]
    (if (= n (count answers))
      answers
      (receive
        [ref node answer] (recur (assoc answers node answer))
        (after (clock/millis (clock/left deadline)) answers)))))

(defn- told [node answer at]
  (status/note-answer node (some? answer) at)
  (if answer
    (assoc answer :node node)
    {:node node :silent-ms (status/silent-ms node)}))

(defn of-others
  "For each connected node {:node name :lines the lines of its tree}, or {:node name :silent-ms for how long it has answered nothing}. Waits for
  some seconds at most."
  []
  (actor/with-process {}
    (let [ref (actor/make-ref)
          at (clock/now)
          nodes (vec (take most-nodes (nodes/of-cluster)))
          asking (mapv #(begin-ask ref %) nodes)
          answers (gathered ref (count nodes) (clock/deadline (* 1000000 (+ 500 (long limit-ms)))))]
      (run! #(actor/exit % :kill) asking)
      (mapv #(told % (answers %) at) nodes))))
