(ns magnetar.impl.actor.receive
  "What the macro `receive` expands to: a matcher, one wait, and the bodies after it."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.codec]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.match.clauses :as clauses]
   [magnetar.impl.runtime]
   [magnetar.impl.transactions :as transactions])
  (:import
   (java.util List)
   (magnetar.kernel.channel Ports Select Select$Chosen)
   (magnetar.kernel.process LocalProcess Matcher Refs)
   (magnetar.kernel.time Durations)))

(set! *warn-on-reflection* true)

(defn me
  "The process that receives."
  ^LocalProcess []
  (transactions/refuse "receive")
  (LocalProcess/require "receive"))

(defn limit
  "The nanoseconds of an `after`."
  ^long [timeout]
  (arguments/nanos "time of an (after ..)" timeout))

(defn- choose
  "What happens first on the channels, as the answer of the clause beside the first one; nil if time ran out, :message if one came."
  [^LocalProcess me channels ^long first-number ^long nanos]
  (let [^Select$Chosen chosen (.awaitBeside (Select/over ^List channels) (.source me) nanos)]
    (cond
      (nil? chosen) nil
      (neg? (.index chosen)) :message
      :else (object-array [(+ first-number (.index chosen)) (.value chosen)]))))

(defn- check-channel [x]
  (when-not (Ports/isPort x)
    (arguments/misuse :magnetar/not-a-channel
                      (str "A clause (from channel v ..) of a receive wants a channel; this is " (arguments/show x)
                           ". Make one with magnetar.channel/chan.") {:value x})))

(defn- arrived
  "The mark of the youngest message that is there: a receive that looks from an older mark on looks at that one too."
  ^long [^LocalProcess me]
  (Refs/mark me (object-array [(Refs/make me)])))

(defn take-or-choose
  "Like `LocalProcess.receive`, with channels beside the mailbox: the answer of the clause number first-number and on is a value of a channel."
  [^LocalProcess me ^Matcher matcher channels first-number nanos mark]
  (run! check-channel channels)
  (let [deadline (clock/deadline (long nanos))]
    (loop [answer (.receive me matcher 0 (long mark))
           looked-at (long mark)]
      (if (some? answer)
        answer
        (let [chosen (choose me channels first-number (clock/left deadline))]
          (if (= :message chosen)
            (let [youngest (arrived me)] ; before it looks: what comes meanwhile is looked at twice, not never
              (recur (.receive me matcher 0 looked-at) youngest))
            chosen))))))

(defn- mark [me locals]
  `(Refs/mark ~me (object-array [~@locals])))

(defn- asked
  "Code of the mark to begin at: behind everything older than the references that each clause asks for."
  [me pinned]
  (cond
    (not (and (seq pinned) (every? seq pinned))) 0
    (= 1 (count pinned)) (mark me (first pinned))
    :else `(min ~@(map #(mark me %) pinned))))

(defn- timeout-code [{:keys [timeout] :as after}]
  (cond
    (nil? after) `Durations/INFINITE
    (= :infinity timeout) `Durations/INFINITE
    (and (integer? timeout) (<= 0 (long timeout) 1000000000)) (* 1000000 (long timeout))
    :else `(limit ~timeout)))

(defn- from-clauses [n from]
  (map-indexed (fn [i {:keys [local body]}] {:number (+ (long n) (long i)) :locals [local] :body body}) from))

(defn- waiting [me matcher pinned n from after]
  (if (seq from)
    `(take-or-choose ~me ~matcher [~@(map :channel from)] ~n ~(timeout-code after) ~(asked me pinned))
    `(.receive ~me ~matcher ~(timeout-code after) ~(asked me pinned))))

(defn code
  "The code of a `receive` with these clauses, as `magnetar.impl.match.clauses/clauses` gives them."
  [{:keys [matcher clauses pinned from after]}]
  (let [me (with-meta (gensym "me") {:tag `LocalProcess})
        answer (gensym "answer")
        n (count clauses)]
    `(let [~me (me)
           ~answer ~(waiting me matcher pinned n from after)]
       ~(clauses/bodies answer (concat clauses (from-clauses n from)) `(do ~@(:body after))))))

(defn expand
  "The code of a `receive`."
  [env form forms]
  (code (clauses/clauses env form forms)))

(defmacro receive
  "`magnetar.actor/receive`, for the library itself."
  [& clauses]
  (expand &env &form clauses))
