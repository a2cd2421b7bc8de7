(ns magnetar.broken-networks
  "Networks that break the contract, each in one way: the contract suite has to catch them."
  (:require
   [magnetar.async :as a])
  (:import
   (java.util.concurrent CountDownLatch)
   (magnetar.kernel.network Member Network Network$Events View)))

(set! *warn-on-reflection* true)

(defn- with-events
  "The network, with the function from events to events between it and who joins."
  [^Network network between]
  (reify Network
    (join [_ events] (.join network (between events)))
    (view [_] (.view network))
    (send [_ to frame] (.send network to frame))
    (cut [_ other] (.cut network other))
    (address [_] (.address network))
    (leave [_] (.leave network))))

(defn- with-frames
  "The network, where `arrive` is called with each frame, its number from 1 and a function that hands a frame on."
  [network arrive]
  (let [n (atom 0)]
    (with-events network
      (fn [^Network$Events events]
        (reify Network$Events
          (view [_ next] (.view events next))
          (frame [_ from bytes] (arrive from bytes (swap! n inc) #(.frame events %1 %2))))))))

(defn- with-views [network change]
  (with-events network
    (fn [^Network$Events events]
      (reify Network$Events
        (view [_ next] (when-some [changed (change next)] (.view events changed)))
        (frame [_ from bytes] (.frame events from bytes))))))

(defn- with-send [^Network network send-frame]
  (reify Network
    (join [_ events] (.join network events))
    (view [_] (.view network))
    (send [_ to frame] (send-frame #(.send network to frame) to frame))
    (cut [_ other] (.cut network other))
    (address [_] (.address network))
    (leave [_] (.leave network))))

(defn- loses [network]
  (with-frames network (fn [from bytes n on] (when-not (= 5 n) (on from bytes)))))

(defn- twice [network]
  (with-frames network (fn [from bytes n on] (on from bytes) (when (= 5 n) (on from bytes)))))

(defn- reorders [network]
  (let [kept (atom nil)]
    (with-frames network (fn [from bytes n on]
                           (if (= 5 n)
                             (reset! kept [from bytes])
                             (do (on from bytes)
                                 (when-let [[from bytes] @kept] (reset! kept nil) (on from bytes))))))))

(defn- changes [network]
  (with-frames network (fn [from ^bytes bytes n on]
                         (when (and (<= 4 (long n)) (pos? (alength bytes))) (aset-byte bytes 0 (byte 1)))
                         (on from bytes))))

(defn- without-self
  "For the second member: its views lack it."
  [network]
  (with-views network (fn [^View next] (View. (remove #(= "n1" (.name ^Member %)) (.members next)) (.merged next)))))

(defn- never-merged [network]
  (with-views network (fn [^View next] (View. (.members next) false))))

(defn- youngest-first [network]
  (with-views network (fn [^View next] (View. (reverse (.members next)) (.merged next)))))

(defn- hides-losses
  "A member that is gone stays in the views."
  [network]
  (let [most (atom 0)]
    (with-views network (fn [^View next]
                          (when (<= (long @most) (count (.members next)))
                            (reset! most (count (.members next)))
                            next)))))

(defn- without-first-view [network]
  (let [told (atom 0)]
    (with-views network (fn [next] (when (< 1 (long (swap! told inc))) next)))))

(defn- one-of-a-name [network]
  (with-views network (fn [^View next] (View. (vals (into {} (map (juxt #(.name ^Member %) identity)) (.members next))) (.merged next)))))

(defn- by-name ^Member [^Member member]
  (Member. (.name member) (hash (.name member))))

(defn- one-id-for-a-name
  "A member that comes back has the id of before."
  [^Network network]
  (let [inner (with-events network
                (fn [^Network$Events events]
                  (reify Network$Events
                    (view [_ next] (.view events (View. (map by-name (.members next)) (.merged next))))
                    (frame [_ from bytes] (.frame events (by-name from) bytes)))))
        found (fn [member] (or (some #(when (= member (by-name %)) %) (some-> (.view network) .members)) member))]
    (reify Network
      (join [_ events] (by-name (.join ^Network inner events)))
      (view [_] (.view network))
      (send [_ to frame] (.send network (found to) frame))
      (cut [_ other] (.cut network (found other)))
      (address [_] (.address network))
      (leave [_] (.leave network)))))

(defn- in-view? [^Network network member]
  (boolean (some #{member} (.members (.view network)))))

(defn- misdirects
  "A frame to a member that is not there goes to the youngest one that is."
  [^Network network]
  (with-send network (fn [send to frame] (if (in-view? network to) (send) (.send network (last (.members (.view network))) frame)))))

(defn- waits-for-the-lost [network]
  (with-send network (fn [send to _]
                       (let [was-there (in-view? network to)]
                         (send)
                         (when (and was-there (not (in-view? network to))) (.await (CountDownLatch. 1)))))))

(defn- takes-all [network]
  (with-send network (fn [send _ ^bytes frame] (when (<= (alength frame) Network/MAX_FRAME) (send)))))

(defn- never-blocks [network]
  (let [sent (atom 0)]
    (with-send network (fn [send _ frame] (when (<= (long (swap! sent + (alength ^bytes frame))) 1000) (send))))))

(defn- joins-twice [^Network network]
  (let [joined (atom nil)]
    (reify Network
      (join [_ events] (or @joined (reset! joined (.join network events))))
      (view [_] (.view network))
      (send [_ to frame] (.send network to frame))
      (cut [_ other] (.cut network other))
      (address [_] (.address network))
      (leave [_] (.leave network)))))

(defn- ignores-cuts [^Network network]
  (reify Network
    (join [_ events] (.join network events))
    (view [_] (.view network))
    (send [_ to frame] (.send network to frame))
    (cut [_ _])
    (address [_] (.address network))
    (leave [_] (.leave network))))

(defn- talks-after-leave [^Network network]
  (let [told (atom nil)]
    (reify Network
      (join [_ events] (reset! told events) (.join network events))
      (view [_] (.view network))
      (send [_ to frame] (.send network to frame))
      (cut [_ other] (.cut network other))
      (address [_] (.address network))
      (leave [_]
        (.leave network)
        (let [^Network$Events events @told
              last-view (.view network)]
          (a/go (a/<! (a/timeout 20)) (.view events last-view)))))))

(def networks
  "From the name of a defect to [the function from a network to a broken one, the items that catch it]."
  {:loses [loses [:in-order :short-cut :leave]]
   :hides-losses [hides-losses [:leave :crash :cut-and-heal :cut-one-way :not-transitive :cut-off]]
   :without-first-view [without-first-view [:self-first]]
   :one-of-a-name [one-of-a-name [:same-name]]
   :one-id-for-a-name [one-id-for-a-name [:rejoin]]
   :misdirects [misdirects [:to-nobody :crash]]
   :waits-for-the-lost [waits-for-the-lost [:waits-no-longer-than-the-view]]
   :doubles [twice [:in-order]]
   :reorders [reorders [:in-order]]
   :changes [changes [:in-order :sizes]]
   :without-self [without-self [:all-meet]]
   :never-merged [never-merged [:cut-and-heal]]
   :youngest-first [youngest-first [:all-meet]]
   :takes-all [takes-all [:sizes]]
   :never-blocks [never-blocks [:waits-for-slow]]
   :joins-twice [joins-twice [:join-once]]
   :ignores-cuts [ignores-cuts [:cut-off]]
   :talks-after-leave [talks-after-leave [:leave]]})
