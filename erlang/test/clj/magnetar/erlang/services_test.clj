(ns magnetar.erlang.services-test
  "The servers of this node that BEAMs expect, beside a scripted node that sends them what it likes."
  {:wakes false}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.erlang :as erlang]
   [magnetar.erlang.impl.functions :as functions]
   [magnetar.erlang.impl.nodes :as connections]
   [magnetar.erlang.scripted :as scripted
    :refer [control eventually failures-of hang-up join next-control pid quietly reference running]]))

(set! *warn-on-reflection* true)

(def ^:private other "b@127.0.0.1")
(def ^:private their-pid (pid other 5))
(def ^:private question (reference other 7))
(def ^:private us (keyword "m@127.0.0.1"))
(def ^:private module :magnetar.erlang.services-test)

;; ---- what the scripted node may call

(defn price [item] [:price item 12])

(defn wait [how]
  (! :inbox [how (self)])
  (receive :end :ended))

(defn unsendable []
  #{1})

(defn crash []
  (actor/spawn-link #(actor/exit {:of 'shelf :items #{:tea}}))
  (receive :never nil))

(defn- with-peer
  "Calls f in a process with the name :inbox, while the scripted node is connected."
  ([f] (with-peer {} f))
  ([options f]
   (running (merge {:spawnable #{#'price #'wait #'unsendable #'crash}} options) (atom [])
     (fn []
       (let [peer (join other)]
         (try
           (actor/with-process {:name :inbox} (f peer))
           (finally (hang-up peer))))))))

(defn- send-to [peer service message]
  (control peer [6 their-pid (keyword "") service] message))

(defn- answer
  "The answer to the next call."
  [peer]
  (let [[_ message] (next-control peer)]
    (if (and (vector? message) (= question (first message)))
      (second message)
      (recur peer))))

(defn- call [peer service request]
  (send-to peer service [:$gen_call [their-pid question] request])
  (answer peer))

(defn- status
  "What the service says of itself, when it has handled all that was sent before."
  [peer service]
  (send-to peer service [:system [their-pid question] :get_status])
  (answer peer))

(defn- asked
  "What `rex` says to the process that sends the request."
  [peer request]
  (send-to peer :rex [their-pid request])
  (second (next-control peer)))

(defn- got []
  (receive x x))

;; ---- the server of the node

(deftest processes-of-beams-are-not-answered-by-the-server-of-the-node
  (with-peer
    (fn [peer]
      (doseq [request [[:disconnect :x] [:connect :x :y] [:watch :x] [:task (list [(list us their-pid) :monitor])] :nodes]]
        (is (= [:error :notsup] (call peer :magnetar.erlang/node request))))
      (is (= [other] (erlang/nodes))))))

;; ---- rex

(deftest an-answer-of-rex-that-has-no-term-says-so
  (failures-of
    (fn [failures]
      (with-peer
        (fn [peer]
          (let [says-so? (fn [[badrpc [exit [[word text] stack]]]]
                           (and (= [:badrpc :EXIT :unsendable ()] [badrpc exit word stack]) (str/includes? text "is a set")))
                rex (actor/whereis :rex)]
            (is (= [:rex [:price :tea 12]] (asked peer [:call module :price (list :tea) :user])))
            (is (says-so? (second (asked peer [:call module :unsendable () :user]))))
            (is (says-so? (call peer :rex [:call module :unsendable () :user])))
            (is (says-so? (call peer :rex [:block_call module :unsendable () :user])))
            (let [why [:badrpc [:EXIT {:of :shelf :items (list :tea)}]]]
              (is (= [:rex why] (asked peer [:call module :crash () :user])))
              (is (= why (call peer :rex [:call module :crash () :user])))
              (is (= why (call peer :rex [:block_call module :crash () :user]))))
            (is (= rex (actor/whereis :rex))))))
      (is (= [] @failures)))))

(deftest a-message-by-rex-goes-to-a-name
  (with-peer
    (fn [peer]
      (is (= [:rex us us] (asked peer [:sbcast :inbox :hello])))
      (is (= :hello (got)))
      (send-to peer :rex [their-pid [:send :inbox :hello]])
      (is (= :hello (second (got))))
      (doseq [name [:nobody-there their-pid [:via :x :y] "inbox" nil 1]
              how [:sbcast :send]]
        (is (= [:rex us [:nonexisting_name name]] (asked peer [how name :hello]))))
      (is (= [:features_reply us (list :erpc)] (asked peer :features_request))))))

(deftest rex-waits-for-no-mailbox-and-no-node-that-does-not-read
  (with-peer {:buffer 1000}
    (fn [peer]
      (let [full (actor/spawn-opt #(receive :end nil) {:name :full :mailbox {:capacity 1 :when-full :block}})
            slow (join "c@127.0.0.1")
            text (apply str (repeat 100000 "x"))
            [sender] (actor/spawn-monitor #(dotimes [_ 1000] (! [:shelf "c@127.0.0.1"] text)))]
        (is (eventually #(= "room in the stream to c@127.0.0.1" (:waits-for (actor/process-info sender)))))
        (dotimes [n 3]
          (is (= [:rex us us] (asked peer [:sbcast :full n]))))
        (send-to peer :rex [(pid "c@127.0.0.1" 5) :features_request])
        (send-to peer :pg [:$gen_call [(pid "c@127.0.0.1" 5) (reference "c@127.0.0.1" 1)] :what?])
        (send-to peer :net_kernel [:$gen_call [(pid "c@127.0.0.1" 5) (reference "c@127.0.0.1" 1)] [:is_auth us]])
        (is (= [:features_reply us (list :erpc)] (asked peer :features_request)))
        (is (= [[:error :notsup] :yes] [(call peer :pg :what?) (call peer :net_kernel [:is_auth us])]))
        (hang-up slow)
        (actor/exit full :kill)))))

;; ---- places

(deftest processes-of-rex-and-user-are-counted
  (with-redefs [functions/most-processes 1]
    (with-peer
      (fn [peer]
        (send-to peer :rex [their-pid [:call module :wait (list :one) :user]])
        (let [[_ one] (got)
              refused [:badrpc :system_limit]]
          (is (= [:rex refused] (asked peer [:call module :price (list :tea) :user])))
          (is (= refused (call peer :rex [:call module :price (list :tea) :user])))
          (is (= refused (call peer :rex [:block_call module :price (list :tea) :user])))
          (send-to peer :rex [:$gen_cast [:cast module :wait (list :two) :user]])
          (send-to peer :user [:io_request their-pid 7 [:put_chars :unicode "lost"]])
          (is (= [:io_reply 7 [:error :terminated]] (second (next-control peer))))
          (control peer [29 (reference other 1) their-pid their-pid [module :wait 1] ()] (list :three))
          (is (= :system_limit (peek (first (next-control peer)))))
          (! one :end)
          (is (= [:rex :ended] (second (next-control peer))))
          (is (eventually #(= [:price :tea 12] (call peer :rex [:call module :price (list :tea) :user]))) "the place is free"))))))

;; ---- what no service expects

(def ^:private nonsense
  "Calls, casts and messages, each of which may be sent to each service."
  {:calls [:nothing nil 1 () [] [nil] [:call] [:call 1 2 3 4] [:block_call] [:block_call 1 2 3 4] [:is_auth] [:call [:call] {} "x"]]
   :casts [:nothing nil 1 () [] [nil] [:cast] [:cast 1 2 3] [:cast :m :f ()] [:sync] [:sync their-pid 5] [:sync their-pid (list 5)]
           [:sync their-pid (list [:tea])] [:sync their-pid (list [:tea :no-pid])] [:sync their-pid (list [:tea their-pid])]]
   :messages [:nothing nil 1 () [] [nil] [:DOWN] [:DOWN nil :process :a :b] [:DOWN nil nil nil nil] [:DOWN question :process their-pid :why]
              [:nodeup] [:nodeup :x] [:nodedown :x] [:changed] [:EXIT their-pid :why] [their-pid] [their-pid :nothing] [their-pid []]
              [their-pid [:call]] [their-pid [:call 1 2 3 4]] [their-pid [:sbcast]] [their-pid [:send]] [:io_request] [:io_request 1 2 3]
              [:io_request their-pid 7 :nothing] [:io_request their-pid 7 [:put_chars 1 2 3 4]] [:discover] [:discover 1] [:join] [:join their-pid]
              [:join their-pid 1 2] [:leave their-pid] [:leave their-pid 1 2] [:leave their-pid their-pid '(1)]
              [:$gen_call] [:$gen_call 1 2] [:$gen_call [:nobody 1] :x] [:system] [:system 1 2] [:system [:nobody 1] :get_state]]})

(deftest no-message-ends-a-service
  (failures-of
    (fn [failures]
      (quietly
        (fn []
          (doseq [service [:net_kernel :pg :rex :user]]
            (testing service
              (with-peer
                (fn [peer]
                  (let [pid (actor/whereis service)
                        lives-after? #(do (run! (partial send-to peer service) %)
                                          (and (= :status (first (status peer service))) (= pid (actor/whereis service))))
                        {:keys [calls casts messages]} nonsense]
                    (is (lives-after? (map (fn [call] [:$gen_call [their-pid (reference other 8)] call]) calls)))
                    (is (lives-after? (map (fn [cast] [:$gen_cast cast]) casts)))
                    (is (lives-after? messages)))))))))
      (is (= [] @failures)))))

;; ---- names of the program

(deftest a-name-of-the-program-stays-with-it-and-what-is-printed-is-printed
  (let [lines (atom [])
        out (java.io.StringWriter.)]
    (actor/with-process {}
      (let [[own-user own-rex] (for [name [:user :rex]] (actor/spawn-opt #(receive :end nil) {:name name}))]
        (binding [*out* out]
          (running {} lines
            (fn []
              (let [peer (join other)]
                (is (= [own-user own-rex] (map actor/whereis [:user :rex])))
                (is (not= own-user (connections/user)))
                (let [started (promise)
                      _ (actor/spawn #(deliver started (erlang/spawn other :stock :watch [])))
                      [[_ ref from leader]] (next-control peer)]
                  (control peer [22 their-pid leader] [:io_request their-pid 7 [:put_chars :unicode "tea"]])
                  (is (= [:io_reply 7 :ok] (second (next-control peer))))
                  (control peer [31 ref from 0 (pid other 40)])
                  (is (= other (actor/node (deref started scripted/limit-ms nil)))))
                (hang-up peer)))))
        (run! #(actor/exit % :kill) [own-user own-rex])))
    (is (= "tea" (str out)))
    (is (= 2 (count @lines)))
    (is (every? #(re-find #"^The name :(user|rex) belongs to the process .+, so what other nodes send" %) @lines))))
