(ns magnetar.hunted
  "Programs that find defects planted in the kernel; `main` runs one of them on the kernel of its class path."
  (:require
   [magnetar.actor :as actor :refer [! receive spawn]]
   [magnetar.async :as a]
   [magnetar.test :as mt]))

(defn messages
  "Both messages arrive."
  []
  (let [receiver (spawn (fn [] [(receive x x) (receive x x)]))]
    (spawn (fn [] (! receiver 1)))
    (! receiver 2)
    (= #{1 2} (set (actor/join receiver)))))

(defn selects
  "Of two values on two channels one select takes one, and another the other."
  []
  (let [cs (vec (repeatedly 2 #(a/chan)))
        takers (vec (repeatedly 2 #(a/go (first (a/alts! cs)))))
        putters (mapv (fn [c v] (a/go (a/>! c v))) cs [1 2])]
    (and (= #{1 2} (set (mapv a/<! takers)))
         (every? true? (mapv a/<! putters)))))

(defn monitors
  "Who watches hears of the death."
  []
  (actor/with-process {}
    (let [p (spawn (fn [] 1))
          ref (actor/monitor p)]
      (receive [:DOWN ref _ _ _] true))))

(def mutants
  "Defects: `find` occurs once in the file of the kernel and is replaced; `program` finds it."
  [{:name "a lost wake-up: the owner leaves its waiter though a message has come meanwhile"
    :program "messages"
    :file "process/OpenMailbox.java"
    :find "        return WORD.compareAndSet(this, null, owner);"
    :replace "        if (word != null) {\n            return false;\n        }\n        World.switchPoint();\n        word = owner;\n        return true;"}
   {:name "a double delivery: a claim looks first and takes later"
    :program "selects"
    :file "park/Waiter.java"
    :find "        if (STATE.compareAndSet(this, OPEN, CLAIMED)) {"
    :replace "        boolean open = state == OPEN;\n        World.switchPoint();\n        if (open) {\n            state = CLAIMED;"}
   {:name "a missed exit signal: a monitor of a process that has just died"
    :program "monitors"
    :file "process/LocalProcess.java"
    :find "        if (life == Life.DEAD) {\n            return false;\n        }\n        watchers = Bag.with(watchers, m);"
    :replace "        watchers = Bag.with(watchers, m);"}])

(defn -main
  "Searches with one of the programs; prints what it found."
  [program]
  (let [found (mt/check* {:runs 1000} (deref (ns-resolve 'magnetar.hunted (symbol program))))]
    (println (if (:passed found) "passed" (str "found " (name (:kind (:failure found))) ", choices " (count (:schedule found)))))
    (shutdown-agents)))
