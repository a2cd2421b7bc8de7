(ns bank.bank-test
  "Short days at the bank; the long ones are run by hand, see its README."
  {:slow true
   :limit 120000}
  (:require
   [bank.books :as books]
   [bank.main :as main]
   [clojure.test :refer [deftest is testing]]))

(defn- balance-after [options]
  (let [outcome (main/run (merge {:seconds 4} options))]
    (is (pos? (:paid outcome)))
    (is (pos? (:between outcome)) "nobody was killed between debit and credit")
    (is (<= (:paid outcome) (:transfers outcome)) "an answered transfer is in the ledger")
    (main/balanced? outcome)))

(deftest the-books-balance-though-accounts-die-between-debit-and-credit
  (is (balance-after {})))

(deftest without-the-transaction-they-do-not
  (is (not (balance-after {:careless true}))))

(deftest the-audit-sees-what-is-wrong
  (let [url "jdbc:h2:mem:audit;DB_CLOSE_DELAY=-1"]
    (books/open url 3 100)
    (books/transfer url 0 1 30 (fn []))
    (is (= {:total 300 :transfers 1 :wrong 0} (books/audit url 100)))
    (is (= [70 130 100] (map #(books/balance url %) (range 3))))
    (testing "one that fails in between leaves nothing"
      (is (thrown? IllegalStateException (books/transfer url 0 1 30 #(throw (IllegalStateException.)))))
      (is (= {:total 300 :transfers 1 :wrong 0} (books/audit url 100))))
    (testing "without the transaction it leaves the debit"
      (is (thrown? IllegalStateException (books/careless-transfer url 0 1 30 #(throw (IllegalStateException.)))))
      (is (= {:total 270 :transfers 1 :wrong 1} (books/audit url 100))))))

(deftest the-same-holds-in-postgresql
  (if-some [url (System/getenv "MAGNETAR_BANK_URL")]
    (do (is (balance-after {:url url}))
        (is (not (balance-after {:url url :careless true}))))
    (println "  skipped: set MAGNETAR_BANK_URL=jdbc:postgresql://.. to run the bank in PostgreSQL")))
