(ns tickets.wires
  "The network between the nodes: a proxy in front of each, which holds up what is cut.

  A node dials from its own loopback address, so a proxy knows who dials. A cut is a broken cable: nothing arrives any
  more, and no connection ends. What is on its way then arrives when the cable is mended."
  (:require
   [clojure.string :as str]
   [magnetar.actor :as actor]
   [magnetar.net :as net]
   [magnetar.scope :as scope :refer [fork with-scope]]))

(set! *warn-on-reflection* true)

(defn- host-and-port [address]
  (let [[host port] (str/split address #":")]
    [host (parse-long port)]))

(defn- await-cable
  "Waits until nothing is cut from one node to the other."
  [cuts from to]
  (when-some [mended (@cuts [from to])]
    @mended
    (recur cuts from to)))

(defn- carry
  "Sends what arrives from one node to the other, until one side closes its connection."
  [cuts from to in out]
  (try
    (loop []
      (when-some [bytes (net/recv in)]
        (await-cable cuts from to)
        (net/send out bytes)
        (recur)))
    (catch clojure.lang.ExceptionInfo _) ; one side is gone
    (finally
      (run! net/close [in out]))))

(defn- connect [address]
  (let [[host port] (host-and-port address)]
    (try
      (net/connect host port {:active false :timeout 5000 :else nil})
      (catch clojure.lang.ExceptionInfo _)))) ; the node is down

(defn- accept [listener]
  (try
    (net/accept listener {:active false})
    (catch clojure.lang.ExceptionInfo _))) ; the wires are gone

(defn- serve
  "Is one connection to the node, and starts the process of the next one."
  [{:keys [cuts addresses] :as wires} to listener]
  (when-some [in (accept listener)]
    (actor/spawn serve wires to listener)
    (let [by-host (into {} (map (fn [[node address]] [(first (host-and-port address)) node])) addresses)
          from (by-host (:host (net/remote-address in)))]
      (await-cable cuts from to)
      (when-some [out (connect (addresses to))]
        (with-scope [s]
          (fork s carry cuts from to in out)
          (carry cuts to from out in))))))

(defn start
  "The wires between nodes, which listen at these addresses: a map from a node to a text host:port. They end with this process."
  [addresses]
  (let [wires {:cuts (atom {}) :addresses addresses}
        listeners (update-vals addresses (fn [_] (net/listen 0 {:host "127.0.0.1"})))]
    (doseq [[node listener] listeners]
      (actor/spawn serve wires node listener))
    (assoc wires :proxies (update-vals listeners #(str "127.0.0.1:" (net/port %))))))

(defn proxy-of
  "The address at which the others find the node."
  [{:keys [proxies]} node]
  (proxies node))

(defn cut
  "Cuts the cable from one node to another, in this direction."
  [{:keys [cuts]} from to]
  (swap! cuts update [from to] #(or % (promise)))
  nil)

(defn cut-off
  "Cuts all cables of the node, in both directions."
  [{:keys [addresses] :as wires} node]
  (doseq [other (keys (dissoc addresses node))]
    (cut wires node other)
    (cut wires other node)))

(defn mend
  "Mends all cables."
  [{:keys [cuts]}]
  (let [[cut _] (reset-vals! cuts {})]
    (run! #(deliver % true) (vals cut))))
