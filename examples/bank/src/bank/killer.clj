(ns bank.killer
  "Kills accounts: at random moments, and between a debit and its credit."
  (:require
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.supervisor :as sup]))

(set! *warn-on-reflection* true)

(defn between
  "The hook of transfers: now and then it tells the killer where it is, and waits to be killed."
  [killer]
  (when (zero? (long (rand-int 20)))
    (! killer [:between (self)])
    (receive ::never nil (after 1000 nil))))

(defn- kill [pid]
  (actor/exit pid :kill))

(defn- any-account [accounts]
  (some-> (seq (sup/which-children accounts)) rand-nth :pid))

(defn run
  "Kills until it is asked for its kills with [:stop from]: answers [:kills {:random n :between n}]."
  [accounts]
  (loop [kills {:random 0 :between 0}]
    (receive
      [:between pid] (do (kill pid) (recur (update kills :between inc)))
      [:stop boss] (! boss [:kills kills])
      (after 20 (let [pid (any-account accounts)]
                  (if pid
                    (do (kill pid) (recur (update kills :random inc)))
                    (recur kills)))))))
