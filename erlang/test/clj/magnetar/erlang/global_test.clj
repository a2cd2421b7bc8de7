(ns magnetar.erlang.global-test
  "The global names of this node, beside the global of a scripted visible node."
  {:wakes false}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [receive]]
   [magnetar.erlang :as erlang]
   [magnetar.erlang.impl.functions :as functions]
   [magnetar.erlang.scripted :as scripted
    :refer [control eventually failures-of flags hang-up join next-search pid reference running]]
   [magnetar.gen-server :as gs]
   [magnetar.global :as global]
   [magnetar.impl.actor.global :as tables])
  (:import
   (magnetar.etf Export)))

(set! *warn-on-reflection* true)

(defn- us []
  (keyword (actor/node)))

(def ^:private other (keyword "b@127.0.0.1"))
(def ^:private third (keyword "c@127.0.0.1"))
(def ^:private their-tag 55)
(def ^:private their-server (pid "b@127.0.0.1" 7))
(def ^:private their-locker (pid "b@127.0.0.1" 8))
(def ^:private prices (pid "b@127.0.0.1" 9))
(def ^:private question (reference "b@127.0.0.1" 1 2 3))
(def ^:private exit-method (Export. "global" "random_exit_name" 3))

;; ---- the scripted server

(defn- tell [peer message]
  (control peer [6 their-server (keyword "") :global_name_server] message))

(defn- cast-to [peer message]
  (tell peer [:$gen_cast message]))

(defn- got
  "The next message for the scripted server: [:$gen_cast message], [:$gen_call from request] or another one."
  [peer]
  (let [[[_ _ _ name] message] (next-search peer)]
    (if (= :global_name_server name) message (recur peer))))

(defn- ask
  "Calls the server of this node as the scripted one; the answer."
  [peer request]
  (tell peer [:$gen_call [their-server question] request])
  (loop []
    (let [[_ message] (scripted/next-control peer)] ; monitors and their ends have no message
      (if (and (vector? message) (= question (first message)))
        (second message)
        (recur)))))

(deftest a-conflict-is-decided-here-when-a-beam-asks-for-it
  (let [one (actor/spawn #(receive x x))
        two (actor/spawn #(receive x x))
        ask #(functions/answer (functions/table #{}) :global :resolve_it [% :till one two])]
    (is (= two (ask (Export. "global" "random_notify_name" 3))))
    (is (= :none (ask (Export. "global" "notify_all_name" 3))))
    (is (nil? (ask (Export. "lists" "sum" 1))) "a method that is no resolver")
    (run! #(actor/exit % :kill) [one two])))

(defn- answer
  "Answers the next call, after (f request)."
  [peer f]
  (let [[kind [from tag] request] (got peer)]
    (assert (= :$gen_call kind))
    (control peer [33 their-server (.tail ^magnetar.etf.ImproperList tag)] [tag (f request)])
    (assert from)
    request))

(defn- greeting
  "[tag locker] of the greeting of this node."
  [peer]
  (let [[cast [verb [version tag] node [_ _ _ locker]]] (got peer)]
    (assert (= [:$gen_cast :init_connect 8 (us)] [cast verb version node]))
    [tag locker]))

(defn- greet
  "Greets the server of this node; the tag and the locker of this node, and the acknowledgement."
  [peer]
  (let [[tag locker] (greeting peer)]
    (cast-to peer [:init_connect [8 their-tag] other [:locker :no_longer_a_pid {} their-locker]])
    [tag locker (got peer)]))

(defn- exchange
  "Locks both sides as a BEAM does, and tells the names; what this node has told by :exchange and :resolved."
  [peer tag locker names]
  (let [id [:global (list their-locker locker)]]
    (assert (true? (ask peer [:set_lock id])))
    (cast-to peer [:lock_set their-locker true () tag])
    (assert (= [:$gen_cast [:lock_set locker true () their-tag]] (got peer)))
    (let [[_ [verb node ours _ to]] (got peer)]
      (assert (= [:exchange (us) their-tag] [verb node to]))
      (cast-to peer [:exchange other names () tag])
      (let [[_ [verb _ operations known :as resolved]] (got peer)]
        (assert (= :resolved verb))
        (assert (= their-tag (peek resolved)))
        [ours operations known id]))))

(defn- known
  "Lets the two nodes know each other, with these names of the other one; what this node has told."
  [peer names]
  (let [[tag locker] (greet peer)
        [_ _ _ id :as told] (exchange peer tag locker names)]
    (cast-to peer [:resolved other () () :unused () tag])
    (assert (eventually #(= (list [other 8]) (ask peer :get_known))))
    (assert (true? (ask peer [:del_lock id])))
    (assert (eventually #(= {} @(tables/locks))))
    told))

(defn- with-peer
  ([f] (with-peer (atom []) f))
  ([lines f]
   (running {:visible true} lines
     (fn []
       (let [peer (join "b@127.0.0.1" (bit-or (long flags) 1))]
         (try
           (f peer)
           (finally (hang-up peer))))))))

(defn- idle []
  (actor/spawn #(receive :end nil)))

(defn- ended [& pids]
  (run! #(actor/exit % :kill) pids)
  (assert (eventually #(empty? (global/registered-names)))))

;; ---- two nodes that meet

(deftest names-of-both-sides-are-told-while-both-are-locked
  (let [own (idle)]
    (global/register-name :orders own)
    (with-peer
      (fn [peer]
        (let [[ours operations known] (known peer (list [:prices prices exit-method]))]
          (is (= [[:orders exit-method]] (map (juxt first peek) ours)))
          (is (= [() ()] [operations known]) "there is no conflict, and no other node")
          (is (= "b@127.0.0.1" (actor/node (global/whereis-name :prices))))
          (is (= :ok (global/sync)))
          (is (= (list other) (ask peer :get_synced)))
          (is (= [8 () [:error :notsup] [:error :notsup]] (map #(ask peer %) [:get_protocol_version :get_names_ext :what? [:what? 1]])))
          (is (= :yes (ask peer [:register :taxes prices exit-method])))
          (is (= #{:orders :prices :taxes} (set (global/registered-names))))
          (is (= :ok (ask peer [:unregister :orders])))
          (is (= :yes (ask peer [:register_ext :prices prices exit-method other])))
          (is (nil? (global/whereis-name :orders)))
          (hang-up peer)
          (is (eventually #(= [] (global/registered-names)))))))
    (ended own)))

(deftest the-node-that-sorts-first-decides
  (let [[own other-one] (repeatedly idle)]
    (global/register-name :orders own)
    (global/register-name :stock other-one)
    (with-peer
      (fn [peer]
        (let [[_ operations] (known peer (list [:orders prices exit-method]))]
          (is (= () operations) "b sorts before m")
          (is (actor/alive? own))
          (cast-to peer [:new_nodes other (list [:insert [:orders prices exit-method]] [:delete :stock] [:else 1]) () () ()])
          (is (eventually #(= "b@127.0.0.1" (some-> (global/whereis-name :orders) actor/node))))
          (is (eventually #(nil? (global/whereis-name :stock)))))))
    (ended own other-one)))

;; ---- talks

(deftest messages-of-another-talk-are-dropped-and-a-talk-begins-again
  (with-peer
    (fn [peer]
      (let [[tag locker acknowledged] (greet peer)]
        (is (= [:init_connect_ack (us) their-tag tag] acknowledged))
        (tell peer [:init_connect_ack other tag their-tag])
        (cast-to peer [:lock_set their-locker true () (inc tag)])
        (cast-to peer [:lock_set their-locker false () tag])
        (cast-to peer [:exchange other () () (inc tag)])
        (cast-to peer [:resolved other () () :unused () (inc tag)])
        (tell peer [:cancel_connect other (inc tag)])
        (tell peer [:cancel_connect other tag])
        (let [[second-tag] (greeting peer)]
          (is (not= tag second-tag))
          (tell peer [:init_connect_ack other tag their-tag])
          (is (= [:cancel_connect (us) their-tag] (got peer)))
          (let [[third-tag] (greet peer)]
            (cast-to peer [:init_connect [8 56] other [:locker :no_longer_a_pid {} their-locker]])
            (is (= [:cancel_connect (us) 56] (got peer)))
            (let [[fourth-tag] (greeting peer)]
              (is (= [:init_connect_ack (us) 56 fourth-tag] (got peer)))
              (is (distinct? tag second-tag third-tag fourth-tag))
              (cast-to peer [:lock_set their-locker true () fourth-tag])
              (is (= [:$gen_cast [:lock_set locker false () 56]] (got peer)) "the other side has set no lock")
              (cast-to peer [:in_sync other true])
              (is (eventually #(= (list other) (ask peer :get_synced)))))))))))

(deftest a-talk-that-is-given-up-unlocks
  (with-peer
    (fn [peer]
      (let [[tag locker] (greet peer)
            [_ _ _ id] (exchange peer tag locker ())]
        (tell peer [:cancel_connect other tag])
        (greeting peer)
        (is (true? (ask peer [:del_lock id])))
        (is (eventually #(= {} @(tables/locks)))))
      (let [lock [:global (list their-locker)]]
        (is (true? (ask peer [:set_lock lock])))
        (is (true? (ask peer [:set_lock lock])))
        (is (false? (ask peer [:set_lock [:global ()]])))
        (is (true? (ask peer [:del_lock lock])))
        (is (true? (ask peer [:set_lock [:global ()]])) "in Erlang one unlock ends all")
        (hang-up peer)
        (is (eventually #(= {} @(tables/locks))) "the locks of a lost node are free")))))

(deftest what-is-not-understood-is-reported
  (failures-of
    (fn [failures]
      (with-peer
        (fn [peer]
          (known peer ())
          (cast-to peer [:init_connect :nine :nodes])
          (cast-to peer [:new_nodes other 5 () () ()])
          (tell peer [:lost_connection other :first :second third])
          (tell peer [:DOWN 1 :process 2 3])
          (tell peer :nothing)
          (cast-to peer :nothing)
          (is (= [:error :badarg] (ask peer [:register])))
          (is (= (list [other 8]) (ask peer :get_known)))
          (is (<= 3 (count @failures) 4)))))))

(defn- overflow []
  (inc (overflow)))

(def ^:private failures-of-resolvers
  {"fails an assertion" #(assert (= 1 2))
   "exits" #(actor/exit :tired)
   "kills its process" #(actor/exit (actor/self) :kill)
   "needs an endless stack" overflow})

(deftest a-resolver-that-fails-keeps-no-lock
  (doseq [[what fail] failures-of-resolvers]
    (failures-of
      (fn [failures]
        (let [own (idle)]
          (global/register-name :orders own (fn [_ _ _] (fail)))
          (running {:visible true :name "a@127.0.0.1"} (atom []) ; a sorts before b, and decides
            (fn []
              (let [peer (join "b@127.0.0.1" (bit-or (long flags) 1))]
                (try
                  (is (= (list [:delete :orders]) (second (known peer (list [:orders prices exit-method])))) what)
                  (is (nil? (global/whereis-name :orders)) what)
                  (finally (hang-up peer))))))
          (is (actor/alive? own) what)
          (is (<= (count @failures) 1) what)
          (ended own))))))

(deftest what-is-malformed-is-left-out
  (failures-of
    (fn [failures]
      (with-peer
        (fn [peer]
          (let [[tag locker] (greet peer)
                theirs (list [:prices prices exit-method] [:orders] :x [:taxes :no-pid exit-method] [:rates prices])
                [_ _ _ id] (exchange peer tag locker theirs)]
            (cast-to peer [:resolved other (list [:insert [:taxes prices exit-method]] [:insert [:orders]] [:delete]) 5 :unused () tag])
            (is (eventually #(= (list [other 8]) (ask peer :get_known))))
            (is (true? (ask peer [:del_lock id])))
            (is (= #{:prices :taxes} (set (global/registered-names))))
            (is (= 3 (count @failures)))))))))

(deftest a-name-of-a-refused-registration-ends-with-its-process
  (failures-of
    (fn [failures]
      (with-peer
        (fn [peer]
          (known peer (list [:prices prices exit-method]))
          (is (= [:error :badarg] (ask peer [:register :prices :no-pid exit-method])))
          (is (= [:error :badarg] (ask peer [:register_ext :prices prices])))
          (cast-to peer [:new_nodes other (list [:insert [:prices :no-pid exit-method]]) () () ()])
          (is (= [:error :notsup] (ask peer [:magnetar.erlang.impl.global/adopt])) "of this library")
          (is (= [:error :notsup] (ask peer :magnetar.erlang.impl.global.locks/nodes)))
          (is (= "b@127.0.0.1" (actor/node (global/whereis-name :prices))))
          (hang-up peer)
          (is (eventually #(= {} @(tables/others))))
          (is (= 3 (count @failures))))))))

(deftest the-server-waits-for-no-room
  (with-peer
    (fn [peer]
      (known peer ())
      (actor/! [:sink "b@127.0.0.1"] (String. (char-array 20000000 \x))) ; the other side does not read it
      (tell peer [:$gen_call [their-server question] [:set_lock [:global (list their-locker)]]])
      (is (eventually #(seq @(tables/locks))))
      (is (= (list [other 8]) (gs/call :global_name_server :get_known {:timeout scripted/limit-ms :else :late})))
      (hang-up peer)
      (is (eventually #(= {} @(tables/locks)))))))

;; ---- locks of processes of this node

(def ^:private stock [:stock :till])

(defn- requests
  "The next so many requests to the scripted server, which are granted."
  [peer n]
  (vec (repeatedly n #(answer peer (constantly true)))))

(deftest holds-on-another-node-are-counted
  (with-peer
    (fn [peer]
      (known peer ())
      (let [there {:nodes ["b@127.0.0.1"]}
            done (future
                   (actor/with-process {}
                     (global/set-lock stock {:nodes [(actor/node)]})
                     (global/set-lock stock there)
                     (global/set-lock stock there)
                     (global/del-lock stock there)
                     (global/del-lock stock there)
                     (actor/pdict)))]
        (is (= [[:set_lock stock] [:set_lock stock] [:del_lock stock]] (requests peer 3)))
        (is (= {} (deref done scripted/limit-ms :late)))))))

(deftest a-hold-ends-with-its-connection
  (with-peer
    (fn [peer]
      (known peer ())
      (let [there {:nodes ["b@127.0.0.1"]}
            own (actor/spawn (fn []
                               (global/set-lock stock there)
                               (receive :again nil)
                               (global/set-lock stock there)
                               (global/del-lock stock there)))]
        (is (= [[:set_lock stock]] (requests peer 1)))
        (hang-up peer)
        (let [peer (join "b@127.0.0.1" (bit-or (long flags) 1))]
          (known peer ())
          (actor/! own :again)
          (is (= [[:set_lock stock] [:del_lock stock]] (requests peer 2)))
          (hang-up peer))))))

;; ---- registrations

(deftest a-name-is-registered-while-all-are-locked
  (let [own (idle)]
    (with-peer
      (fn [peer]
        (known peer (list [:prices prices exit-method]))
        (let [answered (future (global/register-name :orders own))
              [_ [_ requester] :as refused] (answer peer (constantly false))]
          (is (= :set_lock (first refused)))
          (is (= [:set_lock [:global requester]] (answer peer (constantly true))) "it tries again")
          (is (= [:register :orders exit-method] ((juxt first second peek) (answer peer (constantly :yes)))))
          (is (= :del_lock (first (answer peer (constantly true)))))
          (is (= :yes (deref answered scripted/limit-ms :late))))
        (let [answered (future (global/register-name :prices own))]
          (answer peer (constantly true))
          (is (= :del_lock (first (answer peer (constantly true)))))
          (is (= :no (deref answered scripted/limit-ms :late))))
        (let [answered (future (global/re-register-name [:a 1] own (fn [_ pid _] pid)))]
          (answer peer (constantly true))
          (is (= [:register [:a 1] (Export. "magnetar.global" "resolve" 3)] ((juxt first second peek) (answer peer (constantly :yes)))))
          (hang-up peer)
          (is (= :yes (deref answered scripted/limit-ms :late)) "a lost node is waited for no longer"))
        (is (str/starts-with? (try (global/register-name #{1} own) (catch IllegalArgumentException e (ex-message e)))
                              "The name #{1} cannot be registered in this cluster: "))))
    (ended own)))

;; ---- nodes that are lost

(deftest a-node-that-another-one-has-lost-is-disconnected
  (let [lines (atom [])]
    (with-peer lines
      (fn [peer]
        (known peer ())
        (tell peer [:lost_connection third 1 1 other])
        (is (= [:lost_connection third 1 1 other] (got peer)) "all known nodes are told")
        (is (= [:remove_connection (us)] (got peer)))
        (tell peer [:lost_connection third 1 1 other])
        (is (= () (ask peer :get_known)) "it is told once")
        (is (= ["b@127.0.0.1"] (erlang/nodes)) "the other side ends the connection")))
    (is (= [] @lines))
    (with-peer lines
      (fn [peer]
        (known peer ())
        (tell peer [:remove_connection other])
        (is (scripted/ended? peer))
        (is (eventually #(= [] (erlang/nodes))))))
    (is (= 1 (count @lines)))
    (is (str/starts-with? (first @lines) "The connection with the node b@127.0.0.1 is closed, because another node has lost it or this one"))))

(deftest a-node-that-cannot-be-reached-is-lost
  (with-peer
    (fn [peer]
      (known peer ())
      (cast-to peer [:new_nodes other () () (list [third 8]) ()])
      (let [[verb node incarnation number lost] (got peer)]
        (is (= [:lost_connection (us) third] [verb node lost]))
        (is (every? int? [incarnation number])))
      (is (= (list [other 8]) (ask peer :get_known))))))

(deftest a-hidden-node-has-no-server
  (running
    (fn []
      (is (nil? (actor/whereis :global_name_server)))
      (is (= :yes (actor/with-process {} (global/register-name :orders (actor/self)))))
      (is (= [:error :notsup] (gs/call :pg :what?))))))
