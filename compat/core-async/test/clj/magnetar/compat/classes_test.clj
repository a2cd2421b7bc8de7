(ns magnetar.compat.classes-test
  "Libraries ask for core.async's classes: each channel is of them."
  (:require
   [clojure.core.async :as a]
   [clojure.core.async.lab]
   [clojure.test :refer [deftest is]]
   [cognitect.http-client.specs :as specs])
  (:import
   (clojure.core.async.impl.channels ManyToManyChannel)
   (clojure.core.async.impl.protocols Channel ReadPort WritePort)))

(set! *warn-on-reflection* true)

(defn- channels-of-each-kind []
  {:without-buffer (a/chan)
   :with-buffer (a/chan 1)
   :with-transducer (a/chan 1 (map inc))
   :promise (a/promise-chan)
   :timeout (a/timeout 10000)
   :of-go (a/go 1)
   :of-thread (a/thread 1)
   :of-take (a/take 1 (a/chan))
   :end-of-pipeline (a/pipeline 1 (a/chan) (map inc) (a/chan))})

(deftest every-channel-is-of-core-asyncs-classes
  (doseq [[kind ch] (channels-of-each-kind)
          c [ManyToManyChannel Channel ReadPort WritePort]]
    (is (instance? c ch) (str kind " is a " c))))

(defprotocol ^:private Answer
  (answer [x]))

(extend-protocol Answer
  ManyToManyChannel
  (answer [_] :channel)
  Object
  (answer [_] :other))

(deftest protocols-can-be-extended-to-the-class-of-channels
  (doseq [[kind ch] (channels-of-each-kind)]
    (is (= :channel (answer ch)) (str kind)))
  (is (= :other (answer "x"))))

(deftest a-library-that-asks-for-the-class-gets-its-answer
  (is (specs/channel? (a/chan)))
  (is (not (specs/channel? "x"))))
