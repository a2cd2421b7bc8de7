(ns magnetar.hunted
  "Programs that find faults of the kernel."
  (:require
   [magnetar.actor :as actor :refer [! receive self spawn]]
   [magnetar.async :as a]
   [magnetar.inspect :as inspect]
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

(defn- sends
  "Sends the receivers, in turn, messages, answers to aliases and exit signals, all numbered, and ends."
  [me receivers]
  (dotimes [n 6]
    (doseq [{:keys [pid alias]} receivers]
      (case (long (rem n 3))
        0 (! pid [:signal me n])
        1 (! alias [:signal me n])
        2 (actor/exit pid [:signal me n])))))

(defn- hears
  "Takes all that comes until so many senders are down: [from what], in order of arrival."
  [senders]
  (loop [got []
         down 0]
    (if (= down senders)
      got
      (receive
        [:signal from n] (recur (conj got [from n]) down)
        [:EXIT _ [:signal from n]] (recur (conj got [from n]) down)
        [:DOWN _ :process pid _] (recur (conj got [pid :down]) (inc down))))))

(defn- receiver
  "A process that gives its addresses, and then hears the senders, which begin when all receivers watch."
  [addresses begin told]
  (spawn (fn []
           (actor/flag :trap-exit true)
           (a/>! addresses {:pid (self) :alias (actor/make-alias)})
           (let [senders (receive [:senders ps] ps)]
             (run! actor/monitor senders)
             (a/>! begin true)
             (a/>! told (hears (count senders)))))))

(defn pairs
  "What each of two receivers heard of each of two senders, in order of arrival: numbers, and :down."
  []
  (let [[addresses begin told] (repeatedly 3 #(a/chan 2))]
    (dotimes [_ 2] (receiver addresses begin told))
    (let [receivers (vec (repeatedly 2 #(a/<! addresses)))
          senders (vec (repeatedly 2 #(spawn (fn [] (receive :go (sends (self) receivers))))))]
      (doseq [{:keys [pid]} receivers] (! pid [:senders senders]))
      (dotimes [_ 2] (a/<! begin))
      (doseq [s senders] (! s :go))
      (for [heard (vec (repeatedly 2 #(a/<! told)))
            s senders]
        (map second (filter #(= s (first %)) heard))))))

(defn pair-order
  "What one sends to another arrives in order, and its end last of all."
  []
  (every? #(= [0 1 2 3 4 5 :down] %) (pairs)))

(defn named-monitor
  "A process that starts another with a name and a monitor hears why it died, however soon."
  []
  (let [parent (spawn (fn []
                        (let [[child ref] (actor/spawn-opt (fn [] (receive :stop nil))
                                                           {:name :child :monitor true})]
                          (receive [:DOWN ref _ _ why] why
                                   (after 10 (! child :stop) :alive)))))]
    (spawn (fn [] (some-> (actor/whereis :child) (actor/exit :kill))))
    (contains? #{:killed :alive} (actor/join parent))))

(defn named-link
  "A process that starts another with a name and a link hears why it died, however soon, and lives on if it traps exits."
  []
  (let [parent (actor/spawn-opt (fn []
                                  (actor/spawn-opt (fn [] (receive :stop nil)) {:name :child :link true})
                                  (receive [:EXIT _ why] why (after 10 :alive)))
                                {:trap-exit true})
        enemy (spawn (fn [] (some-> (actor/whereis :child) (actor/exit :kill))))]
    (actor/join enemy)
    (let [outcome (actor/join parent)]
      (some-> (actor/whereis :child) (! :stop))
      (contains? #{:killed :alive} outcome))))

(defn- start-and-hear
  "Starts a process with a link and a monitor, which ends if it is told to, and gives what is heard of its death."
  []
  (let [[child ref] (actor/spawn-opt (fn [] (receive :stop nil)) {:link true :monitor true :name :child})
        heard (receive [:DOWN ref _ _ why] why (after 10 (! child :stop) :alive))]
    (if (= :alive heard) heard [heard (receive [:EXIT _ why] why (after 10 :nothing))])))

(defn early-kill
  "A process hears of the death of a process that it starts, even if that is killed before it begins."
  []
  (let [parent (actor/spawn-opt start-and-hear {:trap-exit true})
        enemy (spawn (fn [] (doseq [{:keys [pid label]} (inspect/processes) :when (re-find #"child" (str label))] (actor/exit pid :kill))))]
    (actor/join enemy)
    (contains? #{:alive [:killed :killed]} (actor/join parent))))

(def ^:private deep
  {:runs 3000 :strategy :exhaustive :preemptions 2 :properties [:no-leaked-fiber]})

(def options
  "How the programs are searched, by name, where it matters."
  {"pair-order" {:faults #{:delay-signals}}
   "named-link" deep
   "early-kill" deep})
