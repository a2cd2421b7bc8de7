(ns giro.ledger-test
  "The ledger books a deposit once, and hands a transfer on when its courier ends. And the command line."
  {:wakes false}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [are deftest is]]
   [giro.ledger :as ledger]
   [giro.main :as main]
   [magnetar.actor :as actor :refer [! receive]]
   [magnetar.gen-server :as gs]))

(set! *warn-on-reflection* true)

(def ^:private at-first
  (* (long ledger/accounts) (long ledger/balance)))

(defn- with-ledger
  "Calls f with a ledger."
  [mode f]
  (actor/with-process {}
    (let [[_ ledger] (gs/start-link 'giro.ledger mode)]
      (f ledger)
      (gs/stop ledger))))

(defn- books [ledger]
  (gs/call ledger :books))

(deftest a-payment-that-is-repeated-is-made-once
  (with-ledger :careful
    (fn [ledger]
      (dotimes [_ 2]
        (is (= :ok (gs/call ledger [:pay [:a 1] 3 4 100]))))
      (is (= :refused (gs/call ledger [:pay [:a 2] 3 4 901])))
      (is (= {:money (- at-first 100) :open 1 :sent 1 :booked 0 :repeated 0 :surplus 0} (books ledger)))
      (doseq [n (range 3 102)]
        (is (= :ok (gs/call ledger [:pay [:a n] 1 1 1]))))
      (is (= :busy (gs/call ledger [:pay [:a 102] 1 1 1]))))))

(deftest a-deposit-that-is-repeated-is-booked-once
  (with-ledger :careful
    (fn [ledger]
      (dotimes [_ 3]
        (is (= :ok (gs/call ledger [:deposit [:b 1] 4 100]))))
      (is (= {:money (+ at-first 100) :open 0 :sent 0 :booked 1 :repeated 2 :surplus 0} (books ledger))))))

(deftest a-careless-ledger-books-it-again
  (with-ledger :careless
    (fn [ledger]
      (dotimes [_ 3]
        (gs/call ledger [:deposit [:b 1] 4 100]))
      (is (= {:money (+ at-first 300) :open 0 :sent 0 :booked 1 :repeated 2 :surplus 200} (books ledger))))))

(defn- courier
  "A process that asks for a transfer, tells what it got, and waits."
  [ledger]
  (let [told (promise)]
    [(actor/spawn (fn []
                    (deliver told (gs/call ledger :next))
                    (receive :end nil)))
     told]))

(deftest a-transfer-is-carried-until-it-is-done
  (with-ledger :careful
    (fn [ledger]
      (is (= :none (gs/call ledger :next)))
      (gs/call ledger [:pay [:a 1] 3 4 100])
      (let [[pid told] (courier ledger)]
        (is (= [:transfer [:a 1] 4 100] (deref told 20000 :late)))
        (is (= :none (gs/call ledger :next)) "it is taken")
        (! pid :end)
        (actor/join pid))
      (is (= [:transfer [:a 1] 4 100] (first (drop-while #{:none} (repeatedly #(gs/call ledger :next))))))
      (is (= :ok (gs/call ledger [:done [:a 1]])))
      (is (= [:none 0] [(gs/call ledger :next) (:open (books ledger))])))))

(deftest a-transfer-may-be-done-by-a-courier-that-was-given-up
  (with-ledger :careful
    (fn [ledger]
      (gs/call ledger [:pay [:a 1] 3 4 100])
      (let [[pid told] (courier ledger)]
        (is (= :transfer (first (deref told 20000 nil))))
        (! pid :end)
        (actor/join pid)
        (is (= :ok (gs/call ledger [:done [:a 1]])))
        (is (= :none (gs/call ledger :next)))))))

(deftest a-wrong-command-line-is-answered-in-a-sentence
  (are [words sentence] (str/includes? (:error (main/plan words)) sentence)
    ["--seconds" "0"]  "it must be a whole number from 1 to 86400"
    ["--seed" "x"]     "it must be a whole number from 0 to 1000000000"
    ["--sideways"]     "Unknown option: \"--sideways\""
    ["20"]             "There is no argument \"20\"")
  (is (= {:seconds 5 :seed 7 :careless true} (:options (main/plan ["--seconds" "5" "--seed" "7" "--careless"])))))
