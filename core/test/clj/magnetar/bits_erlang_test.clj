(ns magnetar.bits-erlang-test
  "Layouts give what real Erlang gives: the cases of bits-golden.edn, which bits.escript beside it writes with an installed Erlang."
  {:wakes false}
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.test :refer [deftest is]]
   [magnetar.bits :as bits]
   [magnetar.bits-support :refer [hex]]))

(set! *warn-on-reflection* true)

(def ^:private cases
  (delay (edn/read-string (slurp (io/file (System/getProperty "magnetar.home") "core/test/resources/conformance/bits-golden.edn")))))

(defn- bitstring [[n text]]
  (bits/bitstring (hex text) n))

(defn- values-of [layout values]
  (zipmap (map keyword (filter symbol? (map first layout)))
          (map #(if (vector? %) (bitstring %) %) values)))

(defn- found [layout source]
  (some-> (bits/parse layout source)
          (update-vals #(if (bytes? %) (bits/bitstring %) %))))

(defn- check [{:keys [layout values built tries]}]
  (let [compiled (bits/compile layout)]
    (is (= (bitstring built) (bits/build-bits compiled (values-of layout values))) (str "builds " layout))
    (doseq [[source expected] tries]
      (is (= (some->> expected (values-of layout)) (found compiled (bitstring source))) (str layout " of " source)))))

(deftest layouts-build-and-match-as-in-erlang
  (run! check @cases)
  (is (< 200 (count @cases)))
  (is (< 500 (count (filter second (mapcat :tries @cases)))))
  (is (< 500 (count (remove second (mapcat :tries @cases))))))
