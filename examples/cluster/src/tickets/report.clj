(ns tickets.report
  "What the nodes told: who had the office, which tickets were sold, and how long there were none.")

(set! *warn-on-reflection* true)

(defn start
  "An empty report, whose time begins now."
  []
  (atom {:began (System/nanoTime) :office nil :sold {} :refused 0 :last nil :longest 0 :first (promise)}))

(defn- ms-since ^long [^long nanos]
  (quot (- (System/nanoTime) nanos) 1000000))

(defn say
  "Prints a line with the time."
  [report text]
  (println (format "%6.1f s  %s" (/ (ms-since (:began @report)) 1000.0) text))
  (flush))

(defn office
  "The node that has opened the office last."
  [report]
  (:office @report))

(defn- with-ticket
  "The report with a ticket that was sold now."
  [{:keys [last longest] :as report} number]
  (-> report
      (update-in [:sold number] (fnil inc 0))
      (assoc :last (System/nanoTime)
             :longest (max (long longest) (if last (ms-since last) 0)))))

(defn note
  "Takes in what a node says."
  [report node [what x]]
  (case what
    :ticket (deliver (:first (swap! report with-ticket x)) true)
    :refused (swap! report update :refused inc)
    :office (let [{:keys [last]} (swap! report assoc :office node)]
              (say report (str node " opens the office with the token " x
                               (when last (str ", " (ms-since last) " ms after the last ticket")))))
    nil))

(defn await-sale
  "Waits until the first ticket is sold."
  [report]
  (when-not (deref (:first @report) 60000 false)
    (throw (ex-info "No ticket was sold within a minute after the start." {}))))

(defn summary
  "What came of it."
  [report]
  (let [{:keys [sold refused longest]} @report
        highest (apply max 0 (keys sold))]
    {:sold (count sold)
     :twice (count (filter #(< 1 (long (val %))) sold))
     :lost (- (long highest) (count sold))
     :refused refused
     :longest longest}))

(defn good?
  "Was no number sold twice, and any at all?"
  [{:keys [sold twice]}]
  (and (pos? (long sold)) (zero? (long twice))))

(defn print-summary
  "Prints what came of it."
  [{:keys [sold twice lost refused longest]}]
  (println sold "tickets sold," twice "of them twice")
  (println lost "numbers lost: the ledger had noted them when their office or its connection went down")
  (println refused "requests without a ticket, which the clients tried again")
  (println longest "ms without a sale, at the most"))
