(ns magnetar.standstill-test
  "Programs that wait for ever although no edges lead in a circle, and programs of which nothing of that kind may be said."
  {:slow true}
  (:require
   [clojure.edn :as edn]
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.dev.child :as child]
   [magnetar.impl.inspect.others :as others]
   [magnetar.impl.inspect.reach :as reach]
   [magnetar.kernel.checks :as checks]
   [magnetar.support :refer [eventually]])
  (:import
   (magnetar.kernel.channel Channel)))

(set! *warn-on-reflection* true)

(defn- answers
  "From the names of programs to their findings, as a JVM with these options prints them for these arguments of `print-answers`."
  [options & arguments]
  (let [form `(do (require '~'magnetar.standstill-programs) (magnetar.standstill-programs/print-answers ~@arguments))
        {:keys [exit out]} (apply child/run (checks/class-path) 250 (concat options ["clojure.main" "-e" (pr-str form)]))]
    (is (= 0 exit) out)
    (into {} (map #(edn/read-string (str "[" % "]"))) (filter #(str/starts-with? % ":") (str/split-lines out)))))

(def ^:private opens
  (into child/opens ["--add-exports" "java.base/jdk.internal.vm=ALL-UNNAMED"]))

(def ^:private expected
  "What is found of which program, and what its text names. Of all others nothing is found."
  {:put [:program #"The only fiber or thread waits, .* go .*standstill_programs.clj:\d+ waits at standstill_programs.clj:\d+ to put on a channel\."]
   :put-beside-idle-server [:program #"All 2 fibers and threads wait, .* to put on a channel\."]
   :thread-in-join [:program #"All 4 fibers and threads wait, .* fork .* for a promise\."]
   :exchange [:scope #"3 fibers wait, .* for fork .* to take from a channel that fork "]
   :unclosed [:scope #"2 fibers wait, .* for fork .* to take from a channel\."]
   :with-go-block [:scope #"3 fibers wait, .* to take from a channel that go "]})

(deftest ^{:limit 300000} standstills-are-found-and-what-may-go-on-is-not-blamed
  (let [answers (answers opens)]
    (is (< 25 (count answers)))
    (doseq [[program found] answers]
      (testing program
        (if-some [[of] (expected program)]
          (is (= [[:standstill of :likely]] (map #(vec (take 3 %)) found)))
          (is (= [] found)))
        (when-some [[_ text] (expected program)]
          (is (re-find text (str (peek (first found))))))))))

(deftest ^{:limit 300000} without-local-variables-no-scope-is-named
  (is (= {:exchange [] :unclosed []} (answers (conj opens "-Dmagnetar.locals=false") [:exchange :unclosed]))))

(deftest ^{:limit 300000} where-virtual-threads-cannot-be-listed-no-standstill-is-reported
  (is (= {:put []} (answers child/opens [:put]))))

(deftest a-search-says-if-it-did-not-come-to-its-end
  (let [ch (Channel/rendezvous)
        channel? #(instance? Channel %)]
    (is (= [ch] (reach/all-found [{:in [(atom {:out ch})]}] channel? 100)))
    (is (= [ch] (reach/all-found [(doto (atom nil) (add-watch :puts (fn [_ _ _ _] ch)))] channel? 100)))
    (is (nil? (reach/all-found [(vec (range 1000)) (vec (repeatedly 1000 #(Object.)))] channel? 100)))))

(deftest this-thread-is-among-all-and-is-not-quiet
  (let [own (first (filter #(= (.threadId (Thread/currentThread)) (:id %)) (others/all)))]
    (is (= "RUNNABLE" (:state own)))
    (is (not (others/quiet? own)))))

(deftest a-virtual-thread-that-the-kernel-has-not-started-is-among-all
  (let [end (promise)
        thread (.start (Thread/ofVirtual) #(deref end))
        found (fn [] (first (filter #(identical? thread (:thread %)) (others/all))))]
    (try
      (is (eventually (and (= "WAITING" (:state (found))) (others/quiet? (found)))))
      (finally (deliver end true)))
    (.join thread)
    (is (nil? (found)))))
