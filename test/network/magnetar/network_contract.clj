(ns magnetar.network-contract
  "The contract of magnetar.kernel.network.Network as functions, for each engine: the simulated one and JGroups.

  An item is a function of a world, a map that the suite of an engine makes:

    :networks  networks that have not joined, for the names \"n0\", \"n1\" and so on
    :on        (fn [i f]) calls f where the network i is, and returns its value
    :start     (fn [i f]) calls f there, and does not wait
    :cut       (fn [from to one-way?]) cuts the ways between the networks of two vectors of indices
    :heal      (fn []) undoes all cuts
    :crash     (fn [i]) ends a network without a leave
    :another   (fn [i name]) another network where i is, which has not joined, for a member of this name
    :until     (fn [pred]) waits until pred is true, and throws if that lasts too long
    :settle    (fn []) lets what is under way arrive, and views settle
    :window    more bytes than may be under way to a receiver that takes nothing

  An item throws what `broken` makes."
  (:import
   (java.util Arrays)
   (java.util.concurrent CountDownLatch)
   (magnetar.kernel.network Member Network Network$Events View)))

(set! *warn-on-reflection* true)

(defn broken
  "The error that an engine breaks the contract."
  [sentence data]
  (ex-info (str "The network breaks its contract: " sentence) (assoc data ::broken true)))

(defn- demand [holds sentence data]
  (when-not holds (throw (broken sentence data))))

;; --- what happens at a member

(defn- recorder
  "Events that are recorded: [:view members merged?] and [:frame from text]. `at-frame` is called first at each frame."
  [record at-frame]
  (let [busy (atom 0)
        alone (fn [f]
                (when (< 1 (long (swap! busy inc))) (swap! record conj [:overlap]))
                (try (f) (finally (swap! busy dec))))]
    (reify Network$Events
      (view [_ next]
        (alone #(swap! record conj [:view (vec (.members next)) (.merged next)])))
      (frame [_ from bytes]
        (alone #(do (at-frame)
                    (swap! record conj [:frame from (String. ^bytes bytes "ISO-8859-1")])))))))

(defn- join
  "Joins with the network i: {:i :network :member :record}."
  [{:keys [networks on]} i & [at-frame]]
  (let [record (atom [])
        ^Network network (networks i)
        member (on i #(.join network (recorder record (or at-frame (fn [])))))]
    {:i i :network network :member member :record record}))

(defn- views [{:keys [record]}]
  (filter #(= :view (first %)) @record))

(defn- members
  "The members of the last view that was told."
  [node]
  (set (second (last (views node)))))

(defn- frames-from [{:keys [record]} {:keys [member]}]
  (for [[what from text] @record :when (and (= :frame what) (= member from))] text))

(defn- sees? [node & others]
  (= (members node) (into #{} (map :member) others)))

(defn- all-see-all? [nodes]
  (every? #(apply sees? % nodes) nodes))

(defn- joined
  "Joins with the first n networks, one after the other, and waits until all see all."
  [{:keys [until] :as world} n]
  (let [nodes (mapv #(join world %) (range n))]
    (until #(all-see-all? nodes))
    nodes))

(defn- send-text [{:keys [on]} {:keys [i ^Network network]} ^Member to ^String text]
  (on i #(.send network to (.getBytes text "ISO-8859-1"))))

(defn- send-all [world from to texts]
  (run! #(send-text world from (:member to) %) texts))

(defn- texts [prefix n]
  (mapv #(str prefix "-" %) (range n)))

(defn- check-views
  "Demands what holds of the views of each member at all times."
  [nodes]
  (doseq [{:keys [member record] :as node} nodes]
    (demand (not-any? #{[:overlap]} @record) "the events of a member overlap" {:member member})
    (doseq [[_ members] (views node)]
      (demand (some #{member} members) "a view does not contain the member itself" {:member member :view members})
      (demand (apply distinct? members) "a view contains a member twice" {:member member :view members}))))

(defn- check-streams
  "Demands that frames came in the order of sending, each once."
  [nodes]
  (doseq [to nodes
          from nodes
          :let [numbers (map #(parse-long (re-find #"\d+$" %)) (frames-from to from))]]
    (demand (or (empty? numbers) (apply < numbers)) "frames came twice, or not in the order of sending" {:from (:member from) :to (:member to) :numbers numbers})))

(defn- check [nodes]
  (check-views nodes)
  (check-streams nodes))

;; --- items: views

(defn- self-first
  "The first member has a view of itself alone, and `join` returns after it."
  [world]
  (let [node (join world 0)]
    (demand (= [[:view [(:member node)] false]] (views node)) "the first view of the first member is not it alone" {:events @(:record node)})
    (demand (= [(:member node)] (.members (.view ^Network (:network node)))) "`view` is not the view that was told" {})
    (demand (= "n0" (.name ^Member (:member node))) "the member has not the name that it has chosen" {:member (:member node)})
    (demand (seq (.address ^Network (:network node))) "`address` is empty" {})))

(defn- all-meet
  "Those that have joined see each other, oldest first, and no view of a join is merged."
  [world]
  (let [nodes (joined world 3)]
    (check nodes)
    (doseq [node nodes :let [[_ members merged] (last (views node))]]
      (demand (= (mapv :member nodes) members) "the members of a view are not the oldest first" {:view members})
      (demand (not merged) "a view is merged although all were together" {:view members}))
    (demand (apply distinct? (map #(.id ^Member (:member %)) nodes)) "two members have one id" {:members (map :member nodes)})))

(defn- join-once
  "A network that has joined refuses to join again."
  [{:keys [on] :as world}]
  (let [{:keys [i ^Network network]} (join world 0)
        refused (try (on i #(.join network (recorder (atom []) (fn [])))) false (catch IllegalStateException _ true))]
    (demand refused "it joins twice" {})))

(defn- leave
  "A member that leaves is in no view soon, after its frames, and gets no event any more."
  [{:keys [on until settle] :as world}]
  (let [[a b c :as nodes] (joined world 3)
        sent (texts "last" 20)]
    (send-all world b a sent)
    (on 1 #(.leave ^Network (:network b)))
    (let [at-leave @(:record b)]
      (until #(and (sees? a a c) (sees? c a c)))
      (demand (= sent (frames-from a b)) "what was sent before a leave did not all arrive" {:got (frames-from a b)})
      (send-all world a b (texts "late" 3))
      (settle)
      (demand (= at-leave @(:record b)) "an event came after the leave" {:before at-leave :after @(:record b)}))
    (check nodes)))

(defn- join-another
  "Joins with another network where i is, by this name."
  [{:keys [networks another] :as world} i name]
  (join (assoc world :networks (assoc networks i (another i name))) i))

(defn- same-name
  "Two members with one name are both in the views, with different ids."
  [{:keys [until] :as world}]
  (let [nodes [(join world 0) (join world 1) (join-another world 2 "n1")]]
    (until #(all-see-all? nodes))
    (demand (= ["n0" "n1" "n1"] (sort (map #(.name ^Member %) (members (first nodes))))) "of two members with one name not both are in the view" {:view (members (first nodes))})
    (send-text world (nodes 0) (:member (nodes 2)) "only-1")
    (until #(seq (frames-from (nodes 2) (nodes 0))))
    (demand (empty? (frames-from (nodes 1) (nodes 0))) "a frame came to another member of that name" {})
    (check nodes)))

(defn- rejoin
  "A member that has left and joins again is another one, and gets nothing that was sent to the first."
  [{:keys [on until] :as world}]
  (let [[a b] (joined world 2)]
    (send-all world a b (texts "first" 10))
    (on 1 #(.leave ^Network (:network b)))
    (let [again (join-another world 1 "n1")]
      (until #(and (sees? a a again) (sees? again a again)))
      (demand (not= (.id ^Member (:member b)) (.id ^Member (:member again))) "a member that has joined again has the id of before" {:member (:member again)})
      (send-all world a again (texts "second" 10))
      (until #(= 10 (count (frames-from again a))))
      (demand (= (texts "second" 10) (frames-from again a)) "a frame to the member of before came to the one of after" {:got (frames-from again a)})
      (check [a again]))))

(defn- crash
  "A member that crashes leaves the views of the others."
  [{:keys [crash until] :as world}]
  (let [[a b c :as nodes] (joined world 3)]
    (crash 1)
    (until #(and (sees? a a c) (sees? c a c)))
    (send-all world a b (texts "late" 3)) ; dropped, and it does not block
    (send-all world a c (texts "next" 3))
    (until #(<= 3 (count (frames-from c a))))
    (demand (= (texts "next" 3) (frames-from c a)) "a frame to a member that has crashed came to another one" {:got (frames-from c a)})
    (check nodes)))

(defn- cut-and-heal
  "Members that are cut off leave the views, and come back by the same id, in a merged view."
  [{:keys [cut heal until] :as world}]
  (let [[a b c :as nodes] (joined world 3)]
    (cut [0] [1 2] false)
    (until #(and (sees? a a) (sees? b b c) (sees? c b c)))
    (send-all world a b (texts "cut" 3)) ; dropped
    (send-all world b c (texts "cut" 3))
    (until #(= 3 (count (frames-from c b))))
    (let [before (mapv #(count (views %)) nodes)]
      (heal)
      (until #(all-see-all? nodes))
      (doseq [[node n] (map vector nodes before)]
        (demand (some (fn [[_ _ merged]] merged) (drop n (views node))) "no view after the heal is merged" {:member (:member node) :views (views node)})))
    (demand (empty? (frames-from b a)) "a frame to a member that was in no view came after all" {:got (frames-from b a)})
    (send-all world a b (map #(str "healed-" (+ 10 %)) (range 5)))
    (until #(= 5 (count (frames-from b a))))
    (check nodes)))

(defn- cut-one-way
  "A member that cannot be heard leaves the view of the one that does not hear it; then both lose each other, and come back."
  [{:keys [cut heal until] :as world}]
  (let [[a b :as nodes] (joined world 2)]
    (cut [0] [1] true)
    (until #(and (sees? b b) (sees? a a)))
    (heal)
    (until #(all-see-all? nodes))
    (check nodes)))

(defn- not-transitive
  "Two members that are cut off from each other are reached by a third one, or leave its view; after the heal all see all."
  [{:keys [cut heal until settle] :as world}]
  (let [[a b _ :as nodes] (joined world 3)]
    (cut [0] [1] false)
    (until #(and (not (contains? (members a) (:member b))) (not (contains? (members b) (:member a)))))
    (settle)
    (heal)
    (until #(all-see-all? nodes))
    (check nodes)))

;; --- items: frames

(defn- in-order
  "While views stay, all frames arrive, once, unchanged and in the order of sending, from all to all, to itself too."
  [{:keys [until settle] :as world}]
  (let [nodes (joined world 3)
        sent (texts "frame" 100)]
    (doseq [text sent from nodes to nodes] (send-text world from (:member to) text))
    (until #(every? (fn [[to from]] (<= 100 (count (frames-from to from)))) (for [to nodes from nodes] [to from])))
    (settle)
    (doseq [to nodes from nodes]
      (demand (= sent (frames-from to from)) "not all frames came once and in order while views stayed" {:from (:member from) :to (:member to) :got (frames-from to from)}))
    (check nodes)))

(defn- short-cut
  "A cut that is healed before a view changes loses nothing."
  [{:keys [cut heal until] :as world}]
  (let [[a b :as nodes] (joined world 2)
        sent (texts "frame" 30)
        [before during after] (partition 10 sent)
        n (count (views a))]
    (send-all world a b before)
    (cut [0] [1] false)
    (send-all world a b during)
    (heal)
    (send-all world a b after)
    (until #(or (= 30 (count (frames-from b a))) (< n (count (views a)))))
    (demand (or (= sent (frames-from b a)) (< n (count (views a)))) "frames were lost by a cut that no view has shown" {:got (frames-from b a)})
    (check nodes)))

(defn- sizes
  "Frames of all sizes up to the longest arrive; a longer one is refused."
  [{:keys [on until] :as world}]
  (let [[a b] (joined world 2)
        of-size (fn [n] (byte-array (map #(unchecked-byte (* 7 (long %))) (range n))))
        sent (map of-size [0 1 255 256 8191 (dec Network/MAX_FRAME) Network/MAX_FRAME])
        send (fn [^bytes frame] (on 0 #(.send ^Network (:network a) (:member b) frame)))]
    (run! #(send (aclone ^bytes %)) sent)
    (until #(= (count sent) (count (frames-from b a))))
    (doseq [[^bytes frame ^String got] (map vector sent (frames-from b a))]
      (demand (Arrays/equals frame (.getBytes got "ISO-8859-1")) "a frame has arrived changed" {:size (alength frame) :got (count got)}))
    (demand (try (send (of-size (inc Network/MAX_FRAME))) false (catch IllegalArgumentException _ true)) "a frame that is too long is not refused" {})))

(defn- to-nobody
  "A frame to a member that is in no view is dropped at once."
  [{:keys [until] :as world}]
  (let [[a b] (joined world 2)]
    (send-text world a (Member. "nobody" 4711) "lost-1")
    (send-text world a (:member b) "next-2")
    (until #(= ["next-2"] (frames-from b a)))))

(defn- flood
  "Sends frames of the longest size until so many were sent; returns an atom of how many."
  [{:keys [start window]} {:keys [i ^Network network]} {:keys [member]} done]
  (let [sent (atom 0)
        n (+ 8 (* 2 (quot (long window) Network/MAX_FRAME)))
        frame (byte-array Network/MAX_FRAME (byte 48))]
    (start i #(do (dotimes [_ n]
                    (.send network member (aclone frame))
                    (swap! sent inc))
                  (deliver done n)))
    sent))

(defn- waits-for-slow
  "A send waits while the receiver takes nothing, and goes on when it does."
  [{:keys [until settle] :as world}]
  (let [gate (CountDownLatch. 1)
        a (join world 0)
        b (join world 1 #(.await gate))
        done (promise)
        _ (until #(all-see-all? [a b]))
        sent (flood world a b done)]
    (settle)
    (demand (not (realized? done)) "a receiver that takes nothing holds up no sender" {:sent @sent})
    (.countDown gate)
    (until #(realized? done))
    (until #(= @done (count (frames-from b a))))))

(defn- waits-no-longer-than-the-view
  "A send that waits for a receiver ends when the receiver has left the view."
  [{:keys [crash until settle] :as world}]
  (let [gate (CountDownLatch. 1)
        a (join world 0)
        b (join world 1 #(.await gate))
        done (promise)]
    (until #(all-see-all? [a b]))
    (flood world a b done)
    (settle)
    (crash 1)
    (until #(sees? a a))
    (until #(realized? done))
    (.countDown gate)
    (check-views [a])))

(defn- cut-off
  "A member that is cut off leaves the view, its frames are dropped until it is back, and it comes back."
  [{:keys [on until] :as world}]
  (let [[a b :as nodes] (joined world 2)
        n (count (views a))]
    (on 0 #(.cut ^Network (:network a) (:member b)))
    (until #(some (fn [[_ members]] (= members [(:member a)])) (drop n (views a))))
    (until #(all-see-all? nodes))
    (send-all world b a (texts "back" 3))
    (until #(= 3 (count (frames-from a b))))
    (check nodes)))

(def items
  "From the name of an item to a function of a world."
  {:self-first self-first
   :all-meet all-meet
   :join-once join-once
   :leave leave
   :same-name same-name
   :rejoin rejoin
   :crash crash
   :cut-and-heal cut-and-heal
   :cut-one-way cut-one-way
   :not-transitive not-transitive
   :in-order in-order
   :short-cut short-cut
   :sizes sizes
   :to-nobody to-nobody
   :waits-for-slow waits-for-slow
   :waits-no-longer-than-the-view waits-no-longer-than-the-view
   :cut-off cut-off})

(defn run
  "Runs the item with the worlds of a maker, (fn [n f]), which calls f with a world of n networks and ends it afterwards."
  [maker item]
  (maker 3 (items item)))
