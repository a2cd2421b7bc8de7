(ns magnetar.histories.machines
  "Three nodes in JVMs of their own, and the network between them, which can be cut: proxies in this JVM.

  Clients are in this JVM, and each asks one node, over its input and output. So all times of a history are of one clock.
  A node ends with its input, also when this JVM is killed. A suspended one goes on then."
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.actor :as actor]
   [magnetar.dev.child :as child]
   [magnetar.histories.store :as store]
   [magnetar.test :as mt]
   [tickets.machines :as addresses]
   [tickets.wires :as wires])
  (:import
   (java.io BufferedReader File IOException Writer)
   (java.lang ProcessBuilder$Redirect)
   (java.util List)
   (java.util.concurrent.atomic AtomicLong)))

(set! *warn-on-reflection* true)

(def nodes
  "The names of the nodes. The first one is the oldest."
  ["a" "b" "c"])

(def limit-ms
  "How long to wait for what has to come."
  120000)

;; ---- the JVM of a node

(defn- config [{:keys [addresses wires server objects options]} node]
  {:cluster (merge {:name (str node "@histories")
                    :cookie "a cookie of the histories"
                    :bind (addresses node)
                    :advertise (wires/proxy-of wires node)
                    :peers (mapv #(wires/proxy-of wires %) (keys addresses))}
                   options)
   :objects objects
   :port (:port server)})

(defn- command [{:keys [addresses] :as machines} node]
  (concat [(str (io/file (System/getProperty "java.home") "bin" "java"))]
          child/opens
          [child/temp "-XX:TieredStopAtLevel=1" "-XX:+UseSerialGC"
           (str "-Djgroups.tcp.client_bind_addr=" (first (str/split (addresses node) #":"))) ; from where it dials
           "-cp" (System/getProperty "java.class.path")
           "clojure.main" "-m" "magnetar.histories.node" (pr-str (config machines node))]))

(defn- take-pending
  "Takes out all promises, of requests that get no more answers."
  [pending]
  (first (reset-vals! pending nil)))

(defn- listen
  "Delivers the answers of the node, as [answer failure], until it ends. Its other requests get none, nor do later ones."
  [pending ^BufferedReader lines]
  (doseq [line (line-seq lines)
          :when (str/starts-with? line "[")]
    (let [[id & answer] (edn/read-string line)]
      (deliver (@pending id) answer)
      (swap! pending dissoc id)))
  (run! #(deliver % nil) (vals (take-pending pending))))

(defn- printed
  "The file of what the node has printed on stderr, since the first start."
  ^File [{:keys [folder]} node]
  (io/file folder (str node ".txt")))

(defn start
  "Starts the node in a JVM of its own."
  [{:keys [jvms] :as machines} node]
  (let [process (.start (doto (ProcessBuilder. ^List (vec (command machines node)))
                          (.redirectError (ProcessBuilder$Redirect/appendTo (printed machines node)))))
        pending (atom {})]
    (swap! jvms assoc node {:process process :pending pending :in (io/writer (.getOutputStream process))})
    (.start (Thread/ofVirtual) #(listen pending (io/reader (.getInputStream process))))))

(defn- expect
  "Adds a promise, unless the node has ended."
  [pending id answer]
  (get (swap! pending #(when % (assoc % id answer))) id))

(defn- answer-of
  "The answer to the request, or the failure as an exception."
  [node request [answer failure]]
  (if failure
    (throw (ex-info (str "The node " node " failed in " (pr-str request) ": " failure) {:node node :request request}))
    answer))

(defn ask
  "What the node answers to the request, or nil if it ends before. It is :failed if the node has ended already. Throws if the request failed."
  [{:keys [jvms ^AtomicLong ids]} node request]
  (let [{:keys [pending ^Writer in]} (@jvms node)
        id (.incrementAndGet ids)
        answer (promise)]
    (if (expect pending id answer)
      (do
        (try
          (locking in
            (.write in (str (pr-str [id request]) "\n"))
            (.flush in))
          (catch IOException _)) ; the node has just ended: the answer is nil
        (answer-of node request @answer))
      :failed)))

;; ---- what happens to it

(defn kill
  "Ends the node as a loss of power would."
  [{:keys [jvms]} node]
  (let [{:keys [^Process process]} (@jvms node)]
    (.waitFor (.destroyForcibly process))))

(defn suspend
  "Suspends the node; returns a function by which it goes on. It also goes on when this JVM ends, and then it ends."
  [{:keys [jvms]} node]
  (let [pid (.pid ^Process (:process (@jvms node)))
        script (str "kill -STOP " pid " && echo stopped && read line; kill -CONT " pid)
        shell (.start (ProcessBuilder. ^List (vector "sh" "-c" script)))]
    (.readLine ^BufferedReader (io/reader (.getInputStream shell)))
    (fn []
      (.close (.getOutputStream shell))
      (.waitFor shell))))

;; ---- all nodes

(defn wait-until
  "Waits until f returns logical true, and returns that."
  [f]
  (mt/wait-until f {:timeout limit-ms}))

(defn- holder? [answer]
  (and (string? answer) (not= :failed answer)))

(defn served?
  "Are all nodes connected, and do they see holders of all objects?"
  [{:keys [objects] :as machines}]
  (every? (fn [node] (and (= 2 (ask machines node [:nodes]))
                          (every? #(holder? (ask machines node [:holder (:name %)])) objects)))
          nodes))

(defn holder
  "The node that has the object, as the node sees it, or nil."
  [machines node {:keys [name]}]
  (let [answer (ask machines node [:holder name])]
    (when (holder? answer)
      (first (str/split answer #"@")))))

(defn- told
  "What the node answers, or why it fails."
  [machines node request]
  (try
    (ask machines node request)
    (catch Exception e (ex-message e))))

(defn- state-of
  "What a node says, as a text."
  [{:keys [objects] :as machines} node]
  (str node " " (pr-str (told machines node [:nodes]) (mapv #(told machines node [:holder (:name %)]) objects)) "\n"
       (str/join "\n" (take-last 15 (str/split-lines (slurp (printed machines node)))))))

(defn- with-states
  "The exception with what all nodes say in its message."
  [machines e]
  (ex-info (str (ex-message e) "\n" (str/join "\n" (map #(state-of machines %) nodes))) {} e))

(defn- prepare [{:keys [objects options]}]
  (let [addresses (addresses/addresses nodes)]
    {:addresses addresses
     :wires (wires/start addresses)
     :server (store/serve (store/make objects))
     :objects objects
     :options options
     :folder (child/temp-folder "nodes")
     :ids (AtomicLong.)
     :jvms (atom {})}))

(defn with-nodes*
  "Calls f with three connected nodes of a cluster. The nodes end with it."
  [program f]
  (actor/with-process {}
    (let [machines (prepare program)]
      (try
        (run! #(start machines %) nodes)
        (wait-until #(served? machines))
        (f machines)
        (catch Exception e (throw (with-states machines e)))
        (finally
          (run! #(kill machines %) (keys @(:jvms machines))))))))

(defmacro with-nodes
  "Evaluates `body` with three nodes that have the :objects and :options of the program."
  [[machines program] & body]
  `(with-nodes* ~program (fn [~machines] ~@body)))
