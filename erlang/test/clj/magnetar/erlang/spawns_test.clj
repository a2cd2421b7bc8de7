(ns magnetar.erlang.spawns-test
  "Requests for processes as packets, with a scripted other side: both ways, refused, unreadable, too many."
  {:wakes false}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.erlang :as erlang]
   [magnetar.erlang.impl.functions :as functions]
   [magnetar.erlang.impl.terms :as terms]
   [magnetar.erlang.scripted :as scripted
    :refer [control ended? eventually failures-of flags hang-up join next-control packet pid reference running term]]
   [magnetar.gen-server :as gs])
  (:import
   (clojure.lang ExceptionInfo)
   (java.io StringWriter)
   (java.util.function Function)
   (magnetar.etf ImproperList Pid)))

(set! *warn-on-reflection* true)

(def ^:private other "b@127.0.0.1")

(def ^:private their-pid (pid other 5))
(def ^:private their-leader (pid other 6))

(defn wait [how]
  (! :inbox [how (self)])
  (receive :end :ended))

(defn hello [name]
  (print "hello" name)
  (apply str name (repeat 9000 "ä")))

(def ^:private module :magnetar.erlang.spawns-test)

(defn- with-process
  "Calls f in a process with the name :inbox, while the scripted node is connected."
  ([f] (with-process flags (atom []) f))
  ([flags lines f]
   (running {:spawnable #{#'wait #'hello}} lines
     (fn []
       (let [peer (join other flags)]
         (try
           (actor/with-process {:name :inbox} (f peer))
           (finally (hang-up peer))))))))

(defn- got
  "The next message of this process; :none if none comes."
  []
  (receive x x (after scripted/limit-ms :none)))

(defn- request
  "The control message for a process."
  [ref function arity & options]
  [29 ref their-pid their-leader [module function arity] (apply list options)])

;; ---- for the other node

(deftest a-request-starts-a-process-that-is-linked-and-monitored-before-it-runs
  (with-process
    (fn [peer]
      (doseq [[options flags] [[[] 0] [[:link] 1] [[:monitor] 2] [[:link :monitor] 3] [[[:monitor (list [:alias :reply_demonitor])] [:priority :low]] 2]]
              :let [ref (reference other 1 2 3)
                    kinds (count (filter #(or (keyword? %) (= :monitor (first %))) options))]]
        (control peer (apply request ref :wait 1 options) (list options))
        (let [[[op answered to told far]] (next-control peer)
              [options-there own] (got)]
          (is (= [31 ref their-pid flags options] [op answered to told options-there]))
          (is (instance? Pid far))
          (! own :end)
          (doseq [[op] (doall (repeatedly kinds #(first (next-control peer))))]
            (is (#{24 28} op))))))))

(deftest the-group-leader-gets-what-is-printed
  (with-process
    (fn [peer]
      (control peer (request (reference other 1 2 3) :hello 1 :monitor) (list "Emma"))
      (is (= 31 (ffirst (next-control peer))))
      (let [[[op _ to] [kind ^Pid from as output]] (next-control peer)]
        (is (= [22 their-leader :io_request :printed [:put_chars :unicode "hello Emma"]] [op to kind as output]))
        (is (= "m@127.0.0.1" (.node from)))
        (control peer [2 (keyword "") from] [:io_reply as :ok]))
      (is (= [28 :normal] (let [[[op] why] (next-control peer)] [op why]))))))

(deftest a-request-that-cannot-be-read-is-answered-and-the-next-one-is-fine
  (failures-of
    (fn [failures]
      (with-process
        (fn [peer]
          (let [ref (reference other 1 2 3)]
            (packet peer 131 68 0 (term (request ref :wait 1)) 108 0 0 0 1 111 255 255 255 255 0 106)
            (is (= [[31 ref their-pid 0 :badarg]] (next-control peer)))
            (is (= 1 (count @failures)))
            (control peer (request ref :hello 1 :monitor) (list "Emma"))
            (is (= [31 ref] (take 2 (first (next-control peer)))))))))))

(deftest a-request-that-no-node-sends-closes-the-connection
  (doseq [[sentence message & payload]
          [["names no function" [29 (reference other 1) their-pid their-leader :wait ()] ()]
           ["names no function" [29 (reference other 1) their-pid their-leader [:a :b] ()] ()]
           ["has no arguments behind it" (request (reference other 1) :wait 1)]
           ["where a Sequential has to be" (request (reference other 1) :wait 1) :args]
           ["where a Sequential has to be" [29 (reference other 1) their-pid their-leader [:a :b 1] :link] ()]
           ["is on another node" [29 (reference other 1) (pid "c@127.0.0.1" 7) their-leader [:a :b 0] ()] ()]
           ["where a ForeignRef has to be" [29 :ref their-pid their-leader [:a :b 0] ()] ()]
           ["where a Pid has to be" [29 (reference other 1) their-pid :leader [:a :b 0] ()] ()]
           ["has only 4 parts" [29 (reference other 1) their-pid their-leader] ()]
           ["has only 3 parts" [31 (reference other 1) their-pid]]]
          :let [lines (atom [])]]
    (testing sentence
      (with-process flags lines
        (fn [peer]
          (apply control peer message payload)
          (is (ended? peer))))
      (is (= 1 (count @lines)))
      (is (str/includes? (first @lines) sentence)))))

(deftest too-many-processes-are-a-limit-of-the-system
  (with-redefs [functions/most-processes 2]
    (with-process
      (fn [peer]
        (let [ask (fn [n]
                    (control peer (request (reference other n) :wait 1) (list n))
                    (nth (first (next-control peer)) 4))]
          (is (= [true true] (map #(instance? Pid (ask %)) [1 2])))
          (is (= :system_limit (ask 3)))
          (let [[[_ one] [_ two]] [(got) (got)]]
            (! one :end)
            (is (eventually #(instance? Pid (ask 4))))
            (run! #(! % :end) [two (second (got))])))))))

(deftest a-process-that-never-runs-leaves-its-place
  (with-redefs [functions/most-processes 1]
    (let [^Function works (functions/works {} (functions/places))
          start #(try (.apply works [:a :b ()]) (catch ExceptionInfo e (:magnetar/exit (ex-data e))))]
      (is (fn? (start)))
      (is (eventually #(do (System/gc) (fn? (start))))))))

;; ---- values that cannot be written

(deftest a-lazy-reason-or-answer-whose-code-throws-is-text
  (failures-of
    (fn [failures]
      (with-process
        (fn [peer]
          (let [ref (reference other 1 2 3)
                child (actor/spawn #(receive :end (actor/exit [:items (map inc [1 nil])])))]
            (actor/register :child child)
            (control peer [19 their-pid :child ref])
            (control peer (request (reference other 7) :absent 0) ())
            (is (= 31 (ffirst (next-control peer))) "the monitor is there")
            (! child :end)
            (is (= [28 :items true] (let [[[op] [word text]] (next-control peer)] [op word (string? text)])))
            (let [[_ server] (gs/start {:init (fn [_] [:ok nil])
                                        :handle-call (fn [_ _ state] [:reply (map inc [1 nil]) state])}
                                       nil {:name :server})
                  tag (ImproperList. (list :alias) (reference other 1 2 3 4 5))]
              (control peer [6 their-pid (keyword "") :server] [:$gen_call [their-pid tag] :items])
              (is (= 28 (ffirst (next-control peer))))
              (is (actor/alive? server))
              (gs/stop server)))))
      (is (= 1 (count @failures)) "the answer is reported"))))

(deftest a-reason-has-a-bounded-term
  (is (= [:closed '(1 2) '(3) :shelf {:of :tea}] (terms/sendable [:closed '(1 2) #{3} 'shelf {:of 'tea}])))
  (is (= (vec (range 5000)) (terms/sendable (vec (range 5000)))))
  (doseq [reason [(range) [:items (iterate inc 0)] (vec (range 20000)) [:items (map #(/ 6 %) [3 0])]]]
    (let [[word text] (terms/sendable reason)]
      (is (= [:unsendable true] [word (< (count text) 3000)]))))
  (is (string? (last (take-while some? (iterate #(when (vector? %) (first %)) (terms/sendable (nth (iterate vector :deep) 5000))))))))

;; ---- by the other node

(deftest a-process-is-asked-for-with-its-group-leader
  (with-process
    (fn [peer]
      (let [asking (actor/spawn #(! :inbox [:started (erlang/spawn other :stock :watch [:tea '(1 2)] {:link true :monitor true})]))
            [[op ref from ^Pid leader mfa options] args] (next-control peer)]
        (is (= [29 [:stock :watch 2] '(:link :monitor) '(:tea (1 2))] [op mfa options args]))
        (is (not= from leader))
        (control peer [31 ref from 3 (pid other 40)])
        (let [[_ [far monitor]] (got)]
          (is (= other (actor/node far)))
          (is (some? monitor)))
        (is (some? asking))))))

(deftest a-refusal-has-its-reason
  (with-process
    (fn [peer]
      (actor/spawn #(! :inbox (try (erlang/spawn other :stock :watch []) (catch ExceptionInfo e (ex-data e)))))
      (let [[[_ ref from]] (next-control peer)]
        (control peer [31 ref from 0 :system_limit])
        (is (= {:node other :reason :system_limit} (got))))))
  (with-process (bit-and-not flags 0x100000000) (atom [])
    (fn [_]
      (is (= {:node other :reason :notsup} (try (erlang/spawn other :stock :watch []) (catch ExceptionInfo e (ex-data e)))))
      (is (= [:erpc :notsup] (try (erlang/call other :stock :count []) (catch ExceptionInfo e ((juxt :class :reason) (ex-data e))))))
      (is (= :ok (erlang/cast other :stock :count []))))))

(deftest a-lost-node-ends-a-call-and-a-spawn
  (with-process
    (fn [peer]
      (actor/spawn #(! :inbox [:spawn (try (erlang/spawn other :stock :watch []) (catch ExceptionInfo e (:reason (ex-data e))))]))
      (next-control peer)
      (actor/spawn #(! :inbox [:call (try (erlang/call other :stock :count []) (catch ExceptionInfo e ((juxt :class :reason) (ex-data e))))]))
      (let [[[_ ref from]] (next-control peer)]
        (control peer [31 ref from 2 (pid other 41)]))
      (hang-up peer)
      (is (= #{[:spawn :noconnection] [:call [:erpc :noconnection]]} (set [(got) (got)]))))))

(deftest a-call-that-is-given-up-leaves-nothing
  (with-process
    (fn [peer]
      (is (= :late (erlang/call other :stock :count [] {:timeout 0 :else :late})))
      (let [[[_ ref from] [tag]] (next-control peer)
            far (pid other 41)]
        (control peer [31 ref from 2 far])
        (is (= [[20 from far ref]] (next-control peer)) "the monitor is ended")
        (control peer [28 far from ref] [tag :return 7])
        (control peer [6 their-pid (keyword "") :inbox] :last)
        (is (= :last (got)))))))

(deftest output-of-a-process-there-is-printed-here
  (let [out (StringWriter.)]
    (binding [*out* out]
      (with-process
        (fn [peer]
          (actor/spawn #(! :inbox [:started (erlang/spawn other :stock :watch [])]))
          (let [[[_ ref from leader]] (next-control peer)
                said (fn [request]
                       (control peer [22 their-pid leader] [:io_request their-pid 7 request])
                       (let [[[_ _ to] answer] (next-control peer)]
                         (is (= [their-pid [:io_reply 7]] [to (subvec answer 0 2)]))
                         (nth answer 2)))]
            (is (= :ok (said [:put_chars :unicode (list "a" 228 '(98 ("c")))])))
            (is (= :ok (said [:put_chars :latin1 (byte-array [228 10])])))
            (is (= :ok (said [:requests (list [:put_chars :unicode "d"] [:put_chars :unicode '(8364)])])))
            (is (= [:error :put_chars] (said [:put_chars :unicode {:no :text}])))
            (is (= [:error :put_chars] (said [:put_chars :unicode '(-1)])))
            (is (= :eof (said [:get_line :unicode "? "])))
            (is (= [:error :request] (said [:getopts])))
            (is (= [:error :request] (said :nonsense)))
            (control peer [22 their-pid leader] :no-request)
            (is (= :ok (said [:put_chars :unicode "e"])))
            (control peer [31 ref from 0 (pid other 40)])
            (is (= :started (first (got))))))))
    (is (= "aäbcä\nd€e" (str out)))))
