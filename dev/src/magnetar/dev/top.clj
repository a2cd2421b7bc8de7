(ns magnetar.dev.top
  "`bin/magnetar top PID`: shows in a terminal what a running program does, and asks it again every few seconds.

  One thread asks the program. The main thread reads keys and draws. The screen is a function of the state, see `screen`."
  (:require
   [clojure.string :as str]
   [magnetar.impl.inspect.outside :as outside]
   [magnetar.impl.inspect.top :as top]
   [magnetar.impl.inspect.views :as views])
  (:import
   (java.time LocalTime)
   (java.time.temporal ChronoUnit)
   (org.jline.keymap BindingReader KeyMap)
   (org.jline.terminal Attributes Size Terminal Terminal$Signal Terminal$SignalHandler TerminalBuilder)
   (org.jline.utils AttributedString AttributedStyle Display InfoCmp$Capability)))

(set! *warn-on-reflection* true)

(def ^:private usage "usage: bin/magnetar top PID")

;; ---- the state

;; The state is a map:
;;   :pid      of the program
;;   :view     :top, :tree, :stuck or :restarts, and :by, the order of the rows of :top
;;   :offset   how many lines of the view are scrolled away, and :height, the lines of the terminal
;;   :answer   the last answer, {:at the time, :top .., :dump ..}
;;   :problem  a sentence that says why there is no newer answer, or nil
;;   :over     true after the last key

(def start
  "What is shown first."
  {:view :top, :by :cpu, :offset 0, :height 24})

(def ^:private orders {"c" :cpu, "m" :messages-per-s, "b" :messages, "a" :age-ms})
(def ^:private other-views {"t" :tree, "d" :stuck, "r" :restarts})

(defn- body
  "The lines of the view."
  [{:keys [view by] {:keys [top dump]} :answer}]
  (case view
    :top (str/split-lines (top/table (top/most-of by Long/MAX_VALUE (:rows top))))
    :tree (mapcat str/split-lines (views/lines ["tree"] dump))
    :stuck (views/lines ["deadlocks" "stuck"] dump)
    :restarts (views/lines ["restarts"] dump)))

(defn- room
  "How many lines of the view fit between the title and the line of keys."
  [{:keys [height]}]
  (max 1 (- (long height) 3)))

(defn- scrolled [state lines]
  (let [most (max 0 (- (count (body state)) (long (room state))))]
    (update state :offset #(max 0 (min most (+ (long %) (long lines)))))))

(defn pressed
  "The state after the key with this name."
  [state key]
  (cond
    (orders key) (assoc state :view :top :by (orders key) :offset 0)
    (other-views key) (assoc state :view (other-views key) :offset 0)
    (nil? (:answer state)) (assoc state :over (= "q" key))
    :else (case key
            "q" (assoc state :over true)
            "up" (scrolled state -1)
            "down" (scrolled state 1)
            "page-up" (scrolled state (- (long (room state))))
            "page-down" (scrolled state (room state))
            state)))

;; ---- what is shown

(def ^:private keys-line
  "q quit  c CPU  m messages/s  b mailbox  a age  t tree  d deadlocks and blocked  r restarts  arrows, page up and down")

(def ^:private words-of-view
  {:cpu "by CPU", :messages-per-s "by messages/s", :messages "by mailbox", :age-ms "by age"})

(defn- title [{:keys [pid view by problem] {:keys [at dump]} :answer}]
  (str "magnetar " pid
       (when at (str "  " at "  deadlocks: " (count (:deadlocks dump)) ", causes of blocked fibers: " (count (:why-stuck dump))
                     "  " (if (= :top view) (words-of-view by) (name view))))
       (when problem (str "  " problem))))

(defn screen
  "The lines that are shown."
  [{:keys [offset answer problem] :as state}]
  (let [lines (if answer (body state) [(if problem "" "asking ..")])]
    (concat [(title state) ""]
            (take (room state) (concat (drop offset lines) (repeat "")))
            [keys-line])))

;; ---- asking

(def ^:private pause-ms 1000)

(defn- answer-of [pid]
  (let [top (outside/ask pid :top)
        dump (outside/ask pid :dump)]
    {:at (str (.truncatedTo (LocalTime/now) ChronoUnit/SECONDS)), :top top, :dump dump}))

(defn- asked
  "Asks the program. Returns a function from the state to the state with the answer. If there is no answer, the last one stays, with a sentence that says why."
  [pid]
  (try
    (let [answer (answer-of pid)]
      #(assoc % :answer answer :problem nil))
    (catch Exception e
      #(assoc % :problem (str (ex-message e))))))

(defn- ask-again-and-again [state pid]
  (doto (Thread. (fn []
                   (while (not (:over @state))
                     (swap! state (asked pid))
                     (Thread/sleep (long pause-ms))))
                 "magnetar-top")
    (.setDaemon true)
    (.start)))

;; ---- the terminal

(defn- key-map ^KeyMap [^Terminal terminal]
  (let [keys (KeyMap.)]
    (doseq [^String key (concat ["q"] (clojure.core/keys orders) (clojure.core/keys other-views))]
      (.bind keys key key))
    (.bind keys "q" (KeyMap/ctrl \C))
    (doseq [[name capability] {"up" InfoCmp$Capability/key_up, "down" InfoCmp$Capability/key_down
                               "page-up" InfoCmp$Capability/key_ppage, "page-down" InfoCmp$Capability/key_npage}]
      (.bind keys name ^String (KeyMap/key terminal capability)))
    (.setNomatch keys "")
    (.setUnicode keys "")
    keys))

(defn- attributed [i line]
  (if (zero? (long i))
    (AttributedString. line (.bold AttributedStyle/DEFAULT))
    (AttributedString. line)))

(defn- draw [^Display display ^Size size state]
  (.resize display (.getRows size) (.getColumns size))
  (.update display
           (vec (map-indexed (fn [i line] (.columnSubSequence ^AttributedString (attributed i line) 0 (.getColumns size))) (screen state)))
           0))

(def ^:private key-wait-ms 200)

(defn- run [^Terminal terminal state]
  (let [display (Display. terminal true)
        reader (BindingReader. (.reader terminal))
        keys (key-map terminal)]
    (.handle terminal Terminal$Signal/INT (reify Terminal$SignalHandler (handle [_ _] (swap! state assoc :over true))))
    (while (not (:over @state))
      (let [size (.getSize terminal)]
        (draw display size (swap! state assoc :height (.getRows size))))
      (when (pos? (.peekCharacter reader key-wait-ms))
        (swap! state pressed (.readBinding reader keys))))))

(defn- in-terminal
  "Calls f while the terminal is in raw mode and on its alternate screen, and restores it."
  [^Terminal terminal f]
  (let [^Attributes before (.enterRawMode terminal)]
    (try
      (.puts terminal InfoCmp$Capability/enter_ca_mode (object-array 0))
      (.puts terminal InfoCmp$Capability/cursor_invisible (object-array 0))
      (f)
      (finally
        (.puts terminal InfoCmp$Capability/cursor_visible (object-array 0))
        (.puts terminal InfoCmp$Capability/exit_ca_mode (object-array 0))
        (.setAttributes terminal before)
        (.flush terminal)))))

(defn- check-terminal [^Terminal terminal pid]
  (when (str/starts-with? (.getType terminal) "dumb")
    (outside/refuse "`top` needs a terminal: `bin/magnetar inspect " pid " top` prints the same once.")))

(defn- show [[word & more]]
  (let [pid (or (when word (parse-long word)) (outside/refuse usage))]
    (when more (outside/refuse usage))
    (outside/check-process pid)
    (with-open [terminal (.build (.dumb (.system (TerminalBuilder/builder) true) true))]
      (check-terminal terminal pid)
      (let [state (atom (assoc start :pid pid))]
        (ask-again-and-again state pid)
        (in-terminal terminal #(run terminal state))))))

(defn -main
  "Shows what the program with this process number does until `q` is pressed, and ends this JVM: with 0, or with 2 and a sentence if it cannot."
  [& arguments]
  (outside/exit-after #(show arguments)))
