(ns magnetar.compat.names-test
  "The names of core.async, required, referred, reified and extended as programs do."
  (:require
   [clojure.core.async :as a :refer [<! <!! >! alt! go go-loop]]
   [clojure.test :refer [deftest is]]
   [magnetar.async]))

(set! *warn-on-reflection* true)

(deftest each-name-is-that-of-magnetar-async
  (is (= (set (keys (ns-publics 'clojure.core.async))) (set (keys (ns-publics 'magnetar.async)))))
  (doseq [[sym shown] (ns-publics 'clojure.core.async)
          :let [source (ns-resolve 'magnetar.async sym)]]
    (is (identical? @shown @source) (str sym))
    (is (= (select-keys (meta shown) [:arglists :macro :doc :deprecated])
           (select-keys (meta source) [:arglists :macro :doc :deprecated])) (str sym))))

(deftest core-async-has-88-names
  (is (= 88 (count (ns-publics 'clojure.core.async)))))

(deftest macros-work-by-alias-and-by-reference
  (is (= 3 (<!! (go (+ (<! (a/go 1)) (<! (a/go-loop [n 0] (if (= n 2) n (recur (inc n))))))))))
  (is (= [:put true] (let [c (a/chan 1)] (<!! (go (alt! [[c 1]] ([done _] [:put done])))))))
  (is (= :none (a/alt!! (a/chan) :some :default :none)))
  (is (= [1 2] [(<!! (a/thread 1)) (<!! (a/io-thread 2))])))

(deftest a-fiber-is-named-after-the-line-of-the-go-form
  (is (re-find #"^go .*names_test\.clj:\d+$" (<!! (go (.getName (Thread/currentThread))))))
  (is (re-find #"^go-loop .*names_test\.clj:\d+$" (<!! (go-loop [] (.getName (Thread/currentThread)))))))

(deftest the-protocols-can-be-reified
  (let [m (reify
            a/Mux
            (muxch* [_] :source)
            a/Mult
            (tap* [_ ch close?] [ch close?])
            (untap* [_ ch] [:without ch])
            (untap-all* [_] :without-any))]
    (is (satisfies? a/Mult m))
    (is (= :source (a/muxch* m)))
    (is (= :tap (a/tap m :tap)))
    (is (= [[:without :tap] :without-any] [(a/untap m :tap) (a/untap-all m)]))))

(deftype ^:private Desk []
  a/Mix
  (admix* [_ ch] [:in ch])
  (unmix* [_ ch] [:out ch])
  (unmix-all* [_] :none)
  (toggle* [_ modes] modes)
  (solo-mode* [_ mode] mode))

(deftest the-protocols-can-be-implemented-by-types
  (let [desk (Desk.)]
    (is (= [[:in 1] [:out 1] :none {1 {:solo true}} :mute]
           [(a/admix desk 1) (a/unmix desk 1) (a/unmix-all desk) (a/toggle desk {1 {:solo true}}) (a/solo-mode desk :mute)]))))

(defrecord ^:private Board [])

(deftest the-protocols-can-be-extended
  (is (not (satisfies? a/Pub (->Board))))
  (extend-protocol a/Pub
    Board
    (sub* [_ topic ch _] [topic ch])
    (unsub* [_ topic ch] [:not topic ch])
    (unsub-all* ([_] :none) ([_ topic] [:none topic])))
  (is (satisfies? a/Pub (->Board)))
  (is (= [[:t :c] [:not :t :c] :none [:none :t]]
         [(a/sub (->Board) :t :c) (a/unsub (->Board) :t :c) (a/unsub-all (->Board)) (a/unsub-all (->Board) :t)]))
  (is (= [:t :c] (magnetar.async/sub (->Board) :t :c)) "seen under our own names too"))

(defn- direct-calls []
  [(a/timeout 5) (a/merge []) (a/thread-call + :io)])

(deftest with-redefs-replaces-functions-that-are-called-directly
  (let [fake (fn [& args] (vec args))
        fakes [[5] [[]] [+ :io]]]
    (is (= fakes (with-redefs [a/timeout fake, a/merge fake, a/thread-call fake] (direct-calls))))
    (is (= fakes (with-redefs [magnetar.async/timeout fake, magnetar.async/merge fake, magnetar.async/thread-call fake] (direct-calls)))
        "under our own names too")
    (is (= :fake (with-redefs [a/timeout (fn [^long _] :fake)] (first (direct-calls)))))
    (is (nil? (<!! (a/timeout 1))))))
