(ns magnetar.cluster.nodes
  "A node with its hub over JGroups, and what runs on it: in this JVM, or in one of its own that evaluates forms.

  Each node has the processes :echo, :server and :starter. Watchers link and monitor processes, and count what fires."
  (:require
   [clojure.java.io :as io]
   [magnetar.actor :as actor :refer [! receive self spawn]]
   [magnetar.cluster.impl.hub :as hub]
   [magnetar.cluster.support :as support]
   [magnetar.dev.child :as child]
   [magnetar.gen-server :as gs]
   [magnetar.report :as report]
   [magnetar.test :as mt])
  (:import
   (java.io BufferedReader Writer)
   (java.lang ProcessBuilder$Redirect)
   (java.util List)
   (java.util.concurrent.atomic AtomicLong)
   (magnetar.cluster.impl JGroupsNetwork)
   (magnetar.kernel.process Peers)))

(set! *warn-on-reflection* true)

;; --- a node in this JVM

(defonce ^:private watchers (atom [])) ; pairs of a node and those that watch processes of it

(defonce ^{:doc "The node of this JVM."} here (atom nil))

(defonce ^{:doc "What `notify` was told and what was reported, in order."} events (atom []))

(defn- keep-node [{:keys [name] :as options} network]
  (actor/flag :trap-exit true)
  (Peers/setName name)
  (let [[how hub :as answer] (hub/start-link (merge options {:network network :notify #(swap! events conj %)}))]
    (if (= :error how)
      (swap! events conj answer)
      (loop []
        (receive
          :stop (hub/stop hub)
          [:EXIT _ why] (do (swap! events conj [:ended why]) (recur)))))
    (Peers/setName nil)))

(defn secret
  "The bytes of a cookie, as sessions take them."
  ^bytes [^String text]
  (.getBytes text))

(defn start
  "Starts the node of this JVM, and returns its address. The options are the ones of `support/settings`, and :session
  with options of the hub."
  [name & {:keys [session] :as options}]
  (reset! events [])
  (reset! watchers [])
  (let [network (JGroupsNetwork. (support/settings name (dissoc options :session)))
        session (merge {:name name :cookie (secret support/cookie)} session)
        keeper (spawn (fn [] (keep-node session network)))]
    (mt/wait-until #(or (.view network) (some (comp #{:error} first) @events)) {:timeout support/limit-ms})
    (reset! here {:network network :keeper keeper})
    (.address network)))

(defn- await-end [pid]
  (let [ref (actor/monitor pid)]
    (receive [:DOWN ref _ _ _] nil)))

(defn stop
  "Stops the node of this JVM, and its processes."
  []
  (let [{:keys [keeper]} @here]
    (actor/with-process {}
      (! keeper :stop)
      (await-end keeper)
      (doseq [pid (keep actor/whereis [:echo :starter :server])]
        (actor/exit pid :kill)
        (await-end pid)))))

(defn awaited
  "Waits until (f events) is true; returns its value."
  [f]
  (support/waited events f))

(defn count-of
  "How often the event was told."
  [event]
  (count (filter #{event} @events)))

(defn await-event
  "Waits until the event was told `n` times."
  ([event] (await-event event 1))
  ([event n] (awaited (fn [all] (<= (long n) (count (filter #{event} all)))))
             :told))

;; --- what runs on it

(defonce ^{:doc "How many messages :echo has dropped."} ^AtomicLong dropped (AtomicLong.))

(defn- echo []
  (receive
    [:echo from x] (do (! from [:echoed x]) (recur))
    [:drop _] (do (.incrementAndGet dropped) (recur))))

(defn- idle []
  (receive :end nil))

(defn- starter []
  (receive
    [:start from n] (do (! from [:started (vec (repeatedly n #(spawn idle)))])
                        (recur))))

(def ^:private server
  {:init (fn [n] [:ok n])
   :handle-call (fn [request _ n] [:reply [request (Peers/name)] n])})

(defn services
  "Starts the processes of a node."
  []
  (actor/register :echo (spawn echo))
  (actor/register :starter (spawn starter))
  (actor/register :server (second (gs/start server 0)))
  :started)

(defmacro in-process
  "Evaluates `body` in a process that ends with it."
  [& body]
  `(actor/with-process {} ~@body))

(defn ask
  "Sends to :echo of a node, and returns what comes."
  [node x]
  (in-process
    (! [:echo node] [:echo (self) x])
    (receive [:echoed y] y)))

(defn call
  "Calls :server of a node."
  [node x]
  (gs/call [:server node] x {:timeout support/limit-ms}))

(defn idle-on
  "The pids of n new idle processes of a node."
  [node n]
  (in-process
    (! [:starter node] [:start (self) n])
    (receive [:started pids] pids)))

;; --- what fires

(defn- watching [counts]
  (receive
    [:EXIT pid why] (recur (update counts [:exit pid why] (fnil inc 0)))
    [:DOWN _ :process pid why] (recur (update counts [:down pid why] (fnil inc 0)))
    [:report from] (do (! from [:counts counts]) (recur counts))))

(defn watch
  "A process that links and monitors each of the processes; returns when the signals were sent."
  [pids]
  (let [ready (promise)
        pid (spawn (fn []
                     (actor/flag :trap-exit true)
                     (run! actor/link pids)
                     (run! actor/monitor pids)
                     (deliver ready true)
                     (watching {})))]
    @ready
    pid))

(defn fired
  "How much of what has fired at the watchers fired how often and why: a map from [kind reason times] to a number."
  [watchers]
  (in-process
    (frequencies
      (for [watcher watchers
            [[kind _ why] times] (do (! watcher [:report (self)])
                                     (receive [:counts counts] counts))]
        [kind why times]))))

(defn watch-node
  "Starts n watchers of as many idle processes of the node."
  [node n]
  (swap! watchers conj [node (doall (map #(watch [%]) (idle-on node n)))])
  :watching)

(defn fired-of
  "As `fired`, of the watchers of the node."
  [node]
  (fired (mapcat second (filter (comp #{node} first) @watchers))))

(defonce ^:private flooding (atom nil))

(defn flood
  "Sends to :echo of the node from n processes, until `dry`."
  [node n size]
  (let [on (atom true)
        body (vec (range size))]
    (reset! flooding {:on on
                      :pids (vec (repeatedly n #(spawn (fn []
                                                         (while @on
                                                           (! [:echo node] [:drop body]))))))})
    :flooding))

(defn dry
  "Ends the flood; returns why its processes ended."
  []
  (let [{:keys [on pids]} @flooding]
    (reset! on false)
    (in-process
      (set (for [pid pids]
             (let [ref (actor/monitor pid)]
               (receive [:DOWN ref _ _ why] (if (= :noproc why) :normal why))))))))

;; --- in a JVM of its own

(defn- evaluated [line]
  (binding [*ns* (find-ns 'magnetar.cluster.nodes)]
    (try
      [:ok (eval (read-string line))]
      (catch Throwable e [:failed (str e)]))))

(defn serve
  "Evaluates each line of the input, and prints the answers."
  []
  (report/add-hook :failure #(swap! events conj [:report (:site %) (ex-message (:error %))]))
  (loop []
    (when-some [line (read-line)]
      (println (pr-str (evaluated line)))
      (recur)))
  (System/exit 0))

(defn jvm
  "Starts a JVM that evaluates forms. The options are options of the JVM."
  [& options]
  (let [command (concat [(str (io/file (System/getProperty "java.home") "bin" "java"))] child/opens options
                        ["-cp" (System/getProperty "java.class.path") "clojure.main" "-e"
                         "(require 'magnetar.cluster.nodes) (magnetar.cluster.nodes/serve)"])
        process (.start (doto (ProcessBuilder. ^List (vec command))
                          (.redirectError ProcessBuilder$Redirect/DISCARD)))]
    {:process process
     :in (io/writer (.getOutputStream process))
     :out (io/reader (.getInputStream process))}))

(defn on
  "The value of the form in the other JVM, in this namespace."
  [{:keys [^Writer in ^BufferedReader out]} form]
  (.write in (str (pr-str form) "\n"))
  (.flush in)
  (loop []
    (let [^String line (or (.readLine out) (throw (ex-info "the other JVM has ended" {:form form})))]
      (if (or (.startsWith line "[:ok ") (.startsWith line "[:failed "))
        (let [[how value] (read-string line)]
          (if (= :ok how) value (throw (ex-info value {:form form}))))
        (recur)))))

(defn signal
  "Sends a signal to the other JVM, such as \"STOP\"."
  [{:keys [^Process process]} name]
  (.waitFor (.start (ProcessBuilder. ^List (vector "kill" (str "-" name) (str (.pid process)))))))

(defn end
  "Ends the other JVM."
  [{:keys [^Process process]}]
  (.destroyForcibly process)
  (.waitFor process))
