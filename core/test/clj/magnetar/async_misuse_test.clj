(ns magnetar.async-misuse-test
  "Arguments that will not do: the class of error is core.async's, the message says what, where and what to do. And the line of the caller in what
  is reported of functions that work in the background."
  (:require
   [clojure.core.async :as theirs]
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.async :as a]
   [magnetar.channel :as channel]
   [magnetar.support :refer [eventually taken value-of with-err with-failures]])
  (:import
   (java.time Duration)))

(set! *warn-on-reflection* true)

(defn- thrown [f]
  (try (f) nil (catch Throwable e e)))

(defmacro ^:private refusals
  "Holds that the form throws an error of the class, with the message and the data, and with a frame of this file on top."
  [& rows]
  `(do ~@(for [[form class message data] (partition 4 rows)]
           `(let [^Throwable error# (thrown (fn [] ~form))]
              (testing ~(pr-str form)
                (is (instance? ~class error#))
                (is (= ~message (ex-message error#)))
                (is (= ~data (select-keys (ex-data error#) [:magnetar/reason :operation :value])))
                (is (= "async_misuse_test.clj" (some-> error# .getStackTrace ^StackTraceElement (first) .getFileName))))))))

(defn- wrong-kind [operation value]
  {:magnetar/reason :magnetar/wrong-kind, :operation operation, :value value})

(defn- wrong-value [operation value]
  {:magnetar/reason :magnetar/wrong-value, :operation operation, :value value})

(defn- no-port [operation value]
  {:magnetar/reason :magnetar/not-a-port, :operation operation, :value value})

(deftest buffers-and-channels-refuse-with-the-value-and-the-remedy
  (refusals
    (a/chan 10 10) ClassCastException
    "`chan` wants a transducer, as in (map inc); this is 10 of java.lang.Long." (wrong-kind "chan" 10)
    (a/promise-chan 10) ClassCastException
    "`chan` wants a transducer, as in (map inc); this is 10 of java.lang.Long." (wrong-kind "chan" 10)
    (a/buffer nil) NullPointerException
    "`buffer` wants a number; this is nil." (wrong-kind "buffer" nil)
    (a/buffer "1") ClassCastException
    "`buffer` wants a number; this is \"1\" of java.lang.String." (wrong-kind "buffer" "1")
    (a/dropping-buffer nil) NullPointerException
    "`dropping-buffer` wants a number; this is nil." (wrong-kind "dropping-buffer" nil)
    (a/sliding-buffer :x) ClassCastException
    "`sliding-buffer` wants a number; this is :x of clojure.lang.Keyword." (wrong-kind "sliding-buffer" :x))
  (testing "a function that is no transducer"
    (let [error (thrown #(a/chan 10 inc))]
      (is (instance? ClassCastException error))
      (is (str/starts-with? (ex-message error) "`chan` wants a transducer, as in (map inc); this is "))
      (is (instance? ClassCastException (ex-cause error)))))
  (testing "a transducer that makes nil is refused by the put"
    (is (thrown-with-msg? NullPointerException #"`chan` wants a transducer that makes a function; this is nil\."
                          (with-failures [failures]
                            (a/>! (a/chan 1 :x) 1)
                            (throw (:error (first @failures))))))))

(deftest a-value-without-end-is-refused-too
  (is (thrown-with-msg? IllegalArgumentException #"this is \(0 1 2 3 4 5 6 7 \.\.\.\) of clojure.lang.Iterate" (a/chan (range)))))

(deftest buffers-take-the-sizes-that-core-async-takes
  (doseq [make [a/buffer a/dropping-buffer a/sliding-buffer]]
    (is (= 0 (count (make 99999999999)))))
  (is (= [true true] (mapv a/unblocking-buffer? [(a/dropping-buffer 0) (a/sliding-buffer 1.5)]))))

(deftest a-timeout-wants-a-number-of-milliseconds
  (refusals
    (a/timeout "100") ClassCastException
    "`timeout` wants a number of milliseconds; this is \"100\" of java.lang.String." (wrong-kind "timeout" "100")
    (a/timeout nil) NullPointerException
    "`timeout` wants a number of milliseconds; this is nil." (wrong-kind "timeout" nil)
    (a/timeout 99999999999999999999N) IllegalArgumentException
    "`timeout` wants a number of milliseconds that a long can hold; this is 99999999999999999999N of clojure.lang.BigInt."
    (wrong-value "timeout" 99999999999999999999N))
  (testing "what is no number of milliseconds at all is no timeout of zero"
    (doseq [x [Double/NaN Double/POSITIVE_INFINITY Double/NEGATIVE_INFINITY Float/NaN]]
      (is (thrown-with-msg? IllegalArgumentException #"that a long can hold; this is ##" (a/timeout x)))))
  (is (thrown? ClassCastException (a/timeout (Duration/ofMillis 5))))
  (testing "handed on as a function"
    (is (thrown-with-msg? IllegalArgumentException #"that a long can hold; this is ##NaN" (apply a/timeout [Double/NaN])))
    (is (thrown-with-msg? IllegalArgumentException #"that a long can hold; this is ##NaN" (mapv a/timeout [Double/NaN])))
    (is (thrown-with-msg? ClassCastException #"`timeout` wants a number of milliseconds; this is \"x\"" (apply a/timeout ["x"])))
    (is (nil? (taken (.invokePrim ^clojure.lang.IFn$LO a/timeout 1)))))
  (is (= [nil nil nil nil] (mapv #(taken (a/timeout %)) [0 -5 1/2 1.5])))
  (is (= :open (a/alt! (a/timeout Long/MAX_VALUE) :closed :default :open))))

(deftest operations-want-a-port
  (let [take "A take wants a channel, or another port to take from; this is "
        put "A put wants a channel, or another port to put on; this is "
        close "`close!` wants a channel, or another port; this is "
        remedy ". Make one with (chan)."
        long "42 of java.lang.Long"]
    (refusals
      (a/<! 42) IllegalArgumentException (str take long remedy) (no-port :take 42)
      (a/<!! nil) IllegalArgumentException (str take "nil" remedy) (no-port :take nil)
      (a/poll! 42) IllegalArgumentException (str take long remedy) (no-port :take 42)
      (a/take! 42 identity) IllegalArgumentException (str take long remedy) (no-port :take 42)
      (a/alts! [42]) IllegalArgumentException (str take long remedy) (no-port :take 42)
      (a/>! 42 1) IllegalArgumentException (str put long remedy) (no-port :put 42)
      (a/>!! nil 1) IllegalArgumentException (str put "nil" remedy) (no-port :put nil)
      (a/offer! 42 1) IllegalArgumentException (str put long remedy) (no-port :put 42)
      (a/put! 42 1) IllegalArgumentException (str put long remedy) (no-port :put 42)
      (a/alts! [[42 1]]) IllegalArgumentException (str put long remedy) (no-port :put 42)
      (a/close! 42) IllegalArgumentException (str close long remedy) (no-port :close 42)
      (a/pipeline 1 42 (map inc) (a/chan)) IllegalArgumentException (str put long remedy) (no-port :put 42))))

(deftest an-error-of-misuse-prints-its-class-and-its-sentence
  (is (= "magnetar.MisuseException: A take wants a channel, or another port to take from; this is nil. Make one with (chan)."
         (str (thrown #(a/<! nil)))))
  (is (= "magnetar.TypeException: `take!` wants a function; this is 42 of java.lang.Long." (str (thrown #(a/take! (a/chan) 42)))))
  (is (str/includes? (with-err (fn [printed] (taken (a/go (a/<! nil))) (printed)))
                     ": magnetar.MisuseException: A take wants")))

(deftest callbacks-want-a-function
  (refusals
    (a/take! (a/chan) nil) NullPointerException "`take!` wants a function; this is nil." (wrong-kind "take!" nil)
    (a/take! (a/chan) 42) ClassCastException "`take!` wants a function; this is 42 of java.lang.Long." (wrong-kind "take!" 42)
    (a/put! (a/chan 1) 1 nil) NullPointerException "`put!` wants a function; this is nil." (wrong-kind "put!" nil)
    (a/put! (a/chan 1) 1 42) ClassCastException "`put!` wants a function; this is 42 of java.lang.Long." (wrong-kind "put!" 42))
  (is (nil? (a/take! (a/to-chan! []) identity nil)) "on-caller? may be nil"))

(deftest alts-refuses-options-that-it-does-not-know
  (doseq [alts [a/alts! a/alts!!]]
    (is (thrown-with-msg? IllegalArgumentException #"`magnetar.async/alts!{1,2}` does not know :priorty; its options are :default, :priority\."
                          (alts [(a/chan)] :priorty true)))
    (is (thrown-with-msg? IllegalArgumentException #"does not know :defualt" (alts [(a/chan)] {:defualt 1 :priority true}))))
  (is (thrown-with-msg? IllegalArgumentException #"does not know :priorty" (a/alt! (a/chan) 1 :priorty true)))
  (is (thrown-with-msg? IllegalArgumentException #"does not know :priorty" (a/do-alts identity [(a/chan)] {:priorty true})))
  (is (thrown-with-msg? IllegalArgumentException #"takes its options in pairs, as in :default x, or as a map; this is :default\."
                        (a/alts! [(a/chan)] :default)))
  (is (= [:d :default] (a/alts! [(a/chan)] :priority false :default :d))))

(deftest alts-wants-ports-and-pairs
  (refusals
    (a/alts! 42) IllegalArgumentException
    "`alts!` wants a collection of ports; this is 42 of java.lang.Long. Write it in a vector." (wrong-value "alts!" 42)
    (a/alts! [[]]) IndexOutOfBoundsException
    "`alts!` takes [port value] to put; this is []. To take from a port, give it without a vector."
    {:magnetar/reason :magnetar/not-a-put, :value []})
  (is (thrown? IndexOutOfBoundsException (a/alts! [[(a/chan)]]))))

(deftest mults-mixes-and-publications-are-asked-for-by-name
  (let [long "; this is 42 of java.lang.Long. Make one with "]
    (refusals
      (a/tap 42 (a/chan)) IllegalArgumentException (str "`tap` wants a mult" long "(mult ch).") (wrong-kind "tap" 42)
      (a/untap 42 nil) IllegalArgumentException (str "`untap` wants a mult" long "(mult ch).") (wrong-kind "untap" 42)
      (a/untap-all nil) IllegalArgumentException "`untap-all` wants a mult; this is nil. Make one with (mult ch)." (wrong-kind "untap-all" nil)
      (a/admix 42 nil) IllegalArgumentException (str "`admix` wants a mix" long "(mix out).") (wrong-kind "admix" 42)
      (a/unmix 42 nil) IllegalArgumentException (str "`unmix` wants a mix" long "(mix out).") (wrong-kind "unmix" 42)
      (a/unmix-all 42) IllegalArgumentException (str "`unmix-all` wants a mix" long "(mix out).") (wrong-kind "unmix-all" 42)
      (a/toggle 42 {}) IllegalArgumentException (str "`toggle` wants a mix" long "(mix out).") (wrong-kind "toggle" 42)
      (a/solo-mode 42 :mute) IllegalArgumentException (str "`solo-mode` wants a mix" long "(mix out).") (wrong-kind "solo-mode" 42)
      (a/sub 42 :t (a/chan)) IllegalArgumentException (str "`sub` wants a publication" long "(pub ch topic-fn).") (wrong-kind "sub" 42)
      (a/unsub 42 :t nil) IllegalArgumentException (str "`unsub` wants a publication" long "(pub ch topic-fn).") (wrong-kind "unsub" 42)
      (a/unsub-all 42) IllegalArgumentException (str "`unsub-all` wants a publication" long "(pub ch topic-fn).") (wrong-kind "unsub-all" 42)
      (a/unsub-all 42 :t) IllegalArgumentException (str "`unsub-all` wants a publication" long "(pub ch topic-fn).") (wrong-kind "unsub-all" 42)
      (a/toggle (a/mix (a/chan)) 42) IllegalArgumentException
      "`toggle` wants a map of channels to modes; this is 42 of java.lang.Long." (wrong-value "toggle" 42)
      (a/toggle (a/mix (a/chan)) {(a/chan) 42}) ClassCastException
      "`toggle` wants a map for each channel, as in {:mute true}; this is 42 of java.lang.Long." (wrong-kind "toggle" 42)
      (a/sub (a/pub (a/chan) :t 42) :t (a/chan)) ClassCastException
      "`pub` wants a function as its buf-fn; this is 42 of java.lang.Long." (wrong-kind "pub" 42)))
  (testing "an error of the program's own is not taken for that"
    (is (thrown-with-msg? IllegalArgumentException #"^mine$"
                          (a/tap (reify a/Mult (tap* [_ _ _] (throw (IllegalArgumentException. "mine")))) (a/chan))))))

(deftest plumbing-refuses-at-once-what-core-async-refuses-at-once
  (refusals
    (a/map + 42) RuntimeException
    "`map` wants a collection of channels; this is 42 of java.lang.Long. Write it in a vector." (wrong-kind "map" 42)
    (a/transduce 42 + 0 (a/chan)) ClassCastException
    "`transduce` wants a transducer, as in (map inc); this is 42 of java.lang.Long." (wrong-kind "transduce" 42)
    (a/transduce nil + 0 (a/chan)) NullPointerException
    "`transduce` wants a transducer, as in (map inc); this is nil." (wrong-kind "transduce" nil)
    (a/to-chan! 42) IllegalArgumentException "`to-chan!` wants a collection; this is 42 of java.lang.Long." (wrong-value "to-chan!" 42)
    (a/to-chan!! 42) IllegalArgumentException "`to-chan!!` wants a collection; this is 42 of java.lang.Long." (wrong-value "to-chan!!" 42)
    (a/pipeline nil (a/chan) (map inc) (a/chan)) NullPointerException "`pipeline` wants a number; this is nil." (wrong-kind "pipeline" nil)
    (a/partition 0 (a/chan)) IllegalArgumentException
    "`partition` wants a whole number from 1 up; this is 0 of java.lang.Long." (wrong-value "partition" 0))
  (is (thrown-with-msg? AssertionError #"a pipeline must have 1 worker or more" (a/pipeline 0 (a/chan) (map inc) (a/chan)))))

;; ---- what fails in the background

(defn- report-of
  "[site class message] of the one failure that is reported when f is called; :open if a channel that f returns does not close then."
  [f]
  (with-failures [failures]
    (let [result (f)]
      (is (eventually (seq @failures)))
      (let [{:keys [site error]} (first @failures)
            channels (filter #(satisfies? clojure.core.async.impl.protocols/ReadPort %) (if (vector? result) result [result]))]
        (if (every? #(nil? (taken %)) channels)
          [site (class error) (ex-message error)]
          :open)))))

(defmacro ^:private reports
  "Holds that the form makes a report with its own line, of an error whose class is, or extends, the class, with the message; and that what it
  returns closes."
  [& rows]
  `(do ~@(for [[form class message] (partition 3 rows)]
           `(testing ~(pr-str form)
              (let [[site# class# message# :as all#] (report-of (fn [] ~form))]
                (is (vector? all#))
                (is (= ~(str (name (first form)) " async_misuse_test.clj:" (:line (meta form))) site#))
                (is (isa? class# ~class))
                (is (= ~message message#)))))))

(def ^:private not-a-function " wants a function; this is 42 of java.lang.Long.")

(def ^:private no-source "A take wants a channel, or another port to take from; this is 42 of java.lang.Long. Make one with (chan).")

(deftest what-fails-in-the-background-is-reported-with-the-line-of-the-caller
  (reports
    (a/into [] 42) IllegalArgumentException no-source
    (a/into 42 (a/to-chan! [1])) ClassCastException "`into` wants a collection to conjoin to; this is 42 of java.lang.Long."
    (a/merge 42) RuntimeException "`merge` wants a collection of channels; this is 42 of java.lang.Long. Write it in a vector."
    (a/merge [42]) IllegalArgumentException no-source
    (a/map + [42]) IllegalArgumentException no-source
    (a/map 42 [(a/to-chan! [1])]) ClassCastException (str "`map`" not-a-function)
    (a/reduce + 0 42) IllegalArgumentException no-source
    (a/reduce 42 0 (a/to-chan! [1])) ClassCastException (str "`reduce`" not-a-function)
    (a/transduce (map inc) 42 0 (a/to-chan! [1])) ClassCastException (str "`transduce`" not-a-function)
    (a/thread-call 42) ClassCastException (str "`thread-call`" not-a-function)
    (a/thread-call 42 :io) ClassCastException (str "`thread-call`" not-a-function)
    (a/split 42 (a/to-chan! [1])) ClassCastException (str "`split`" not-a-function)
    (a/split odd? 42) IllegalArgumentException no-source
    (a/take "1" (a/to-chan! [1])) ClassCastException "`take` wants a number; this is \"1\" of java.lang.String."
    (a/take 1 42) IllegalArgumentException no-source
    (a/pipe 42 (a/chan)) IllegalArgumentException no-source
    (a/onto-chan! (a/chan) 42) IllegalArgumentException "`onto-chan!` wants a collection; this is 42 of java.lang.Long."
    (a/onto-chan!! (a/chan) 42) IllegalArgumentException "`onto-chan!!` wants a collection; this is 42 of java.lang.Long."
    (a/onto-chan! 42 [1]) IllegalArgumentException "A put wants a channel, or another port to put on; this is 42 of java.lang.Long. Make one with (chan)."
    (a/pipeline 1 (a/chan) 42 (a/to-chan! [1])) ClassCastException
    "`pipeline` wants a transducer, as in (map inc); this is 42 of java.lang.Long."
    (a/pipeline-blocking 1 (a/chan) (mapcat 42) (a/to-chan! [1])) ClassCastException
    "class java.lang.Long cannot be cast to class clojure.lang.IFn (java.lang.Long is in module java.base of loader 'bootstrap'; clojure.lang.IFn is in unnamed module of loader 'app')"
    (a/pipeline-async 1 (a/chan) 42 (a/to-chan! [1])) ClassCastException (str "`pipeline-async`" not-a-function)
    (a/mapcat< 42 (a/to-chan! [1])) ClassCastException (str "`mapcat<`" not-a-function)
    (a/filter< 42 (a/to-chan! [1])) ClassCastException (str "`filter<`" not-a-function)
    (a/unique 42) IllegalArgumentException no-source
    (a/partition 2 42) IllegalArgumentException no-source
    (a/partition-by odd? 42) IllegalArgumentException no-source))

(deftest mults-and-publications-are-reported-with-the-line-that-made-them
  (doseq [[f what message] [[#(a/mult 42) "mult" no-source]
                            [#(a/pub 42 :t) "pub" no-source]
                            [#(a/pub (a/to-chan! [1]) 42) "pub" "`pub` wants a function as its topic-fn; this is 42 of java.lang.Long."]
                            [#(doto (a/mix (a/chan)) (a/admix 42)) "mix" no-source]]]
    (let [[site _ said] (report-of f)]
      (is (re-matches (re-pattern (str what " async_misuse_test\\.clj:\\d+")) site))
      (is (= message said)))))

(deftest a-function-that-is-handed-on-is-reported-with-the-line-that-called-it
  (is (re-matches #"into async_misuse_test\.clj:\d+" (first (report-of #(apply a/into [[] 42])))))
  (is (re-matches #"merge async_misuse_test\.clj:\d+" (first (report-of #((first [a/merge]) 42))))))

(deftest what-a-handler-of-a-deprecated-port-throws-does-not-hang-its-taker
  (with-failures [failures]
    (let [source (a/chan)
          port (a/map< (fn [_] (throw (ex-info "boom" {}))) source)
          taker (future (a/<!! port))]
      (is (eventually (= 1 (count (:takers (channel/info source))))))
      (a/>!! source 1)
      (is (nil? (value-of taker)))
      (is (eventually (= ["boom"] (map (comp ex-message :error) @failures)))))))

(deftest the-classes-of-these-errors-are-those-of-core-async
  (doseq [[ours theirs] [[#(a/chan 10 10) #(theirs/chan 10 10)]
                         [#(a/chan 10 inc) #(theirs/chan 10 inc)]
                         [#(a/buffer nil) #(theirs/buffer nil)]
                         [#(a/buffer "x") #(theirs/buffer "x")]
                         [#(a/chan -1) #(theirs/chan -1)]
                         [#(a/timeout "100") #((eval `theirs/timeout) "100")]
                         [#(a/timeout nil) #((eval `theirs/timeout) nil)]
                         [#(a/<!! 42) #(theirs/<!! 42)]
                         [#(a/>!! nil 1) #(theirs/>!! nil 1)]
                         [#(a/close! nil) #(theirs/close! nil)]
                         [#(a/alts!! [[]]) #(theirs/alts!! [[]])]
                         [#(a/alts!! [42]) #(theirs/alts!! [42])]
                         [#(a/tap nil nil) #(theirs/tap nil nil)]
                         [#(a/map + 42) #(theirs/map + 42)]
                         [#(a/transduce nil + 0 (a/chan)) #(theirs/transduce nil + 0 (theirs/chan))]
                         [#(a/to-chan! 42) #(theirs/to-chan! 42)]
                         [#(a/take! (a/chan) 42) #(theirs/take! (theirs/chan) 42)]
                         [#(a/put! (a/chan 1) 1 nil) #(theirs/put! (theirs/chan 1) 1 nil)]]]
    (is (instance? (class (thrown theirs)) (thrown ours)))))

;; ---- with-redefs

(defn- fakes
  "What direct calls give that were compiled before."
  [ch]
  [(a/timeout 5) (a/merge [ch]) (a/merge [ch] 3) (a/into [] ch) (a/mult ch) (a/pub ch odd?) (a/thread-call +) (a/thread-call + :io)])

(deftest with-redefs-replaces-functions-that-are-called-directly
  (is (= [:fake [[:c]] [[:c] 3] [[] :c] [:c] [:c odd?] [+] [+ :io]]
         (with-redefs [a/timeout (fn [^long _] :fake)
                       a/merge vector
                       a/into vector
                       a/mult vector
                       a/pub vector
                       a/thread-call vector]
           (fakes :c))))
  (is (= [5 5 5] (with-redefs [a/timeout identity] [(a/timeout 5) (a/timeout (long 5)) (let [n 5] (a/timeout n))])) "primitives")
  (is (= 6 (count (filter channel/channel? (fakes (a/to-chan! []))))) "and they are as they were afterwards")
  (is (= [nil [1 2]] [(taken (a/timeout 1)) (taken (a/into [] (a/to-chan! [1 2])))])))

(deftest a-hint-on-a-call-is-in-force
  (is (not (str/includes? (with-out-str
                            (binding [*err* *out* *warn-on-reflection* true]
                              (eval '(.close ^magnetar.kernel.channel.Channel (magnetar.async/timeout (long 5))))))
                          "Reflection"))))

(deftest a-call-evaluates-its-arguments-once-and-in-order
  (let [seen (atom [])
        note #(do (swap! seen conj %) %)]
    (a/pipe (note (a/to-chan! [])) (note (a/chan)) (note true))
    (with-redefs [a/pipe vector] (a/pipe (note 4) (note 5) (note 6)))
    (is (= [true 4 5 6] (drop 2 @seen)))))
