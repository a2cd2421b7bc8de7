(ns magnetar.foreign-ref-test
  "References of nodes that number them as Erlang does."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process ForeignRef Peer Peers Ref)))

(set! *warn-on-reflection* true)

(defn- peer ^Peer [name]
  (Peers/peer name 7 nil))

(defn- of ^ForeignRef [name & words]
  (ForeignRef. (peer name) (int-array words) false false))

(deftest references-are-equal-if-node-and-all-words-are
  (let [one (of "a@there" 1 2 3)]
    (is (= one (of "a@there" 1 2 3)))
    (is (= (hash one) (hash (of "a@there" 1 2 3))))
    (is (not-any? #{one} [(of "a@there" 1 2) (of "a@there" 1 2 4) (of "a@there" 1 2 3 0) (of "b@there" 1 2 3)]))
    (is (not= one (Ref/read (.id one) (.creation one))))
    (is (not= (Ref/read (.id one) (.creation one)) one))
    (is (= [1 2 -3] (vec (.words (of "a@there" 1 2 -3)))))
    (is (= 1 (count (into (sorted-set) [one (of "a@there" 1 2 3)]))))))

(deftest a-reference-is-shown-with-its-node
  (is (= "#magnetar/ref \"a@there.1.2.4294967293\"" (str (of "a@there" 1 2 -3)))))

(deftest the-tag-of-a-call-is-the-same-reference
  (let [tag (ForeignRef. (peer "a@there") (int-array [1 2 3 4 5]) true true)]
    (is (= tag (of "a@there" 1 2 3 4 5)))
    (is (.isCallTag tag))
    (is (not (.isPlain tag)))))
