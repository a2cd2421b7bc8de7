(ns magnetar.test.report
  "What a search has found, as text."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.test.diagram :as diagram]
   [magnetar.test.runs :as runs]))

(set! *warn-on-reflection* true)

(defn- names [log]
  (into {} (for [{:keys [what on]} log
                 :when (= "starts" what)
                 :let [[_ n] (re-find #"^#(\d+) " on)]
                 :when n]
             [(parse-long n) on])))

(defn- node-names
  "From the number of a start to the node."
  [log]
  (into {} (for [{:keys [what on value]} log :when (= "boots" what)] [(parse-long value) on])))

(defn- did [who node {:keys [fiber point what target]}]
  (let [me (who fiber)
        at (str " at its point " point)]
    (case what
      :preempt (str me " is preempted" at " by " (who target))
      :prefer (str "after " me at ", " (who target) " runs first")
      :kill (str (who target) " is killed when " me " is" at)
      :kill-passivated (str "process " target ", which is passivated, is killed when " me " is" at)
      :crash-node (str (node target) " crashes when " me " is" at)
      :cut-link (str "the way of the frame that " me " sends" at " is cut for " target " ms")
      :flap (str "the receiver of the frame that " me " sends" at " is taken for unreachable")
      :lose-message (str "the message that " me " sends" at " is lost")
      :delay-signals (str "the signal that " me " sends" at " arrives " (if (pos? (long target)) (str target " ms later") "after others have run"))
      :early-timers (str "time passes when " me " is" at)
      :late-timers (str "time passes by " target " ms more than it has to"))))

(defn- schedule-lines [{:keys [schedule run]}]
  (let [known (names (:log run))
        who #(known % (str "#" %))
        nodes (node-names (:log run))
        node #(nodes % (str "the node of start " %))]
    (map #(str "    " (did who node %)) schedule)))

(defn undelivered
  "The messages of a log that were sent, or lost, and never received."
  [log]
  (let [about #(select-keys % [:on :value])
        sent (frequencies (map about (filter #(contains? #{"message" "reply" "loses message"} (:what %)) log)))
        received (frequencies (map about (filter #(= "receives" (:what %)) log)))]
    (for [[{:keys [on value] :as message} n] sent
          :when (< (long (get received message 0)) (long n))]
      (str value " to " on))))

(defn diagram
  "The sequence diagram of what was found."
  [{:keys [run]}]
  (diagram/diagram (:log run)))

(defn- found-line [{:keys [runs seed found schedule]}]
  (str "  found in run " runs ", seed " seed "; "
       (if (empty? schedule) "whatever is chosen." (str "of " found " choices of that run these " (count schedule) " are enough:"))))

(def ^:private unrepeatable
  (str "  The same schedule did not fail in this way again: something in the body is decided by no seed, as `rand`, the clock of the system, the order of a set of objects,"
       " or what an earlier run has left in an atom. What follows is the run that did not."))

(defn- again-line [found]
  (str "  again: {:replay " (pr-str (select-keys found [:seed :schedule])) "}"))

(defn- replayed-text [{:keys [failure run repeatable] :as found}]
  (let [lost (undelivered (:log run))]
    (str/join "\n"
              (concat [(runs/sentence failure)]
                      (when-not repeatable [unrepeatable])
                      [(found-line found)]
                      (schedule-lines found)
                      (when (seq lost) (cons "  never received:" (map #(str "    " %) (sort lost))))
                      ["  sequence diagram:" (diagram found) (again-line found)]))))

(defn text
  "The report."
  [{:keys [failure runs] :as found}]
  (if (= :unrepeatable (:kind failure))
    (str (:message failure) "\n  found in run " runs)
    (replayed-text found)))
