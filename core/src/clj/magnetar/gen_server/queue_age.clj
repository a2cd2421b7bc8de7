(ns magnetar.gen-server.queue-age
  "Which calls are shed, as a value and one function: the controlled delay of Nichols and Jacobson, in the form for servers.

  While the shortest wait in an interval was above the target there is a standing queue, and in the next interval whatever waited for more than
  twice the target is shed. A wait below the target, which a burst that is worked off has, ends that at the next interval.
  The difference from the paper: calls are not dropped at a growing rate until the sender slows down, since callers do not."
  {:no-doc true})

(set! *warn-on-reflection* true)

(def idle
  "The state of a server that has taken no call. :until is the end of the interval, :shortest its shortest wait."
  {:until nil :shortest Long/MAX_VALUE :overloaded? false :passed 0 :shed 0 :expired 0})

(defn- next-interval
  "The state with the first call of a new interval. One that was sent when the last had ended already has waited behind nothing of it."
  [{:keys [until shortest] :as state} {:keys [target interval]} at waited]
  (assoc state
         :until (+ (long at) (long interval))
         :overloaded? (and (< (long target) (long shortest)) (<= (- (long at) (long waited)) (long until)))
         :shortest waited))

(defn- noted
  "The state after a call has waited for so long."
  [{:keys [until shortest] :as state} {:keys [interval] :as limits} at waited]
  (cond
    (nil? until) (assoc state :until (+ (long at) (long interval)) :shortest waited)
    (<= (long until) (long at)) (next-interval state limits at waited)
    :else (assoc state :shortest (min (long shortest) (long waited)))))

(defn judge
  "The state after a call was taken out of the mailbox, with the :verdict: nil if it may pass, :expired if its caller has given up, :shed."
  [state {:keys [target] :as limits} {:keys [at sent due]}]
  (let [waited (- (long at) (long sent))
        {:keys [overloaded?] :as state} (noted state limits at waited)]
    (assoc state :verdict (cond
                            (<= (long due) (long at)) :expired
                            (and overloaded? (< (* 2 (long target)) waited)) :shed))))

(defn counted
  "The state after `judge`, with the call counted by its verdict."
  [state limits call]
  (let [{:keys [verdict] :as state} (judge state limits call)]
    (update state (or verdict :passed) inc)))

(defn counts
  "What a server shows of its state: how many calls passed, were shed or had expired, and whether it sheds now."
  [{:keys [passed shed expired overloaded?]}]
  {:passed passed :shed shed :expired expired :overloaded? (boolean overloaded?)})
