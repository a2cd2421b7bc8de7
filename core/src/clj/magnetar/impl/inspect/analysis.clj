(ns magnetar.impl.inspect.analysis
  "What a dump of a program says: a dump of Magnetar, or a thread dump of the JDK.

  A thread dump names the owners of monitors, and with `jstack -l` the owners of locks. It shows no channels and no messages. It shows go blocks only if the
  program tracks them."
  {:no-doc true}
  (:require
   [clojure.edn :as edn]
   [clojure.string :as str]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.inspect.awaited :as awaited]
   [magnetar.impl.inspect.json-dump :as json-dump]
   [magnetar.impl.inspect.paths :as paths]
   [magnetar.impl.inspect.stacks :as stacks]
   [magnetar.impl.inspect.text :as text]
   [magnetar.impl.inspect.thread-dump :as thread-dump]
   [magnetar.impl.inspect.tree :as tree]
   [magnetar.impl.runtime])
  (:import
   (java.io File FileInputStream IOException)
   (java.nio.charset StandardCharsets)
   (java.nio.file FileSystems Path)))

(set! *warn-on-reflection* true)

;; ---- words

(def ^:private fiber-name
  "Matches the names of fibers, by their beginning."
  #"^(go |fork |spawn|virtual |:)")

(defn- named [{:keys [name]}]
  (if (re-find fiber-name name) name (str "thread " name)))

(defn- line [{:keys [frames]}]
  (stacks/line-of frames))

(defn- at [thread]
  (when-some [line (line thread)] (str " at " line)))

(defn- short-name
  "The name of a class without its package, and of an inner class the outer one: ReentrantLock for ReentrantLock$NonfairSync."
  [class]
  (first (str/split (peek (str/split class #"\.")) #"\$")))

(def ^:private what-of-class
  "What is waited for in these classes of the kernel, since the object on which they park does not say it."
  (update-keys {"channel.Channel" "a channel"
                "channel.Ports" "a channel"
                "channel.Select" "one of several channels"
                "process.Calls" "an answer"
                "process.Delivery" "room in a mailbox"
                "process.LocalProcess" "the end of a process"
                "process.Receiver" "a message"
                "scope.Fork" "the end of a fork"
                "scope.Offload" "offloaded work"
                "scope.Scope" "the forks of a scope"}
               #(str "magnetar.kernel." %)))

(defn- in-magnetar
  "What the thread waits for in this library; nil if it waits in other code, which this library may have called."
  [{:keys [frames]}]
  (->> frames
       (map #(.getClassName ^StackTraceElement %))
       (take-while #(re-find #"^(java|jdk|magnetar\.kernel)\." %))
       (some what-of-class)))

(defn- object-of [{{:keys [how class]} :waits :as thread}]
  (or (when (= :park how) (in-magnetar thread))
      (str (if (= :monitor how) "the monitor of " "") (awaited/with-article (short-name class)))))

(defn- waits [thread]
  (str "waits" (at thread) " for " (object-of thread)))

;; ---- waits and owners

(defn- owned
  "The objects that the thread has locked. The one whose `wait` it has called is left out, since `wait` releases it."
  [{:keys [owns waits]}]
  (if (= :notify (:how waits)) (disj owns (:object waits)) owns))

(defn- by-object
  "From each object to the thread that has locked it."
  [threads]
  (into {} (for [thread threads, object (owned thread)] [object thread])))

(defn- owner-of [owners {:keys [waits id]}]
  (when (#{:monitor :park} (:how waits))
    (let [owner (owners (:object waits))]
      (when (not= id (:id owner)) owner))))

(defn- chain-of
  "The threads from this one on, each waiting for the next. The last one waits for no other, or is in the chain already."
  [owners thread]
  (loop [chain [thread]]
    (let [next (owner-of owners (peek chain))]
      (cond
        (nil? next) chain
        (some #{next} chain) (conj chain next)
        :else (recur (conj chain next))))))

(defn- cycle-of
  "The threads of the cycle into which the chain leads, the one with the lowest number first; nil without a cycle."
  [chain]
  (let [end (peek chain)
        cycle (vec (drop-while #(not= end %) (pop chain)))]
    (when (seq cycle)
      (let [first (apply min-key (comp parse-long :id) cycle)]
        (into (vec (drop-while #(not= first %) cycle)) (take-while #(not= first %) cycle))))))

;; ---- findings

(defn- step [{:keys [id name waits] :as thread} to]
  (cond-> {:id [:thread (parse-long id)] :name name :at (line thread)}
    waits (assoc :waits-for (object-of thread))
    to (assoc :edge {:to [:thread (parse-long (:id to))] :how (if (= :monitor (:how waits)) :monitor :lock) :grade :exact
                     :because "the dump names the owner"})))

(defn- doing [{:keys [waits] :as thread}]
  (if waits
    (str "waits" (at thread) " for " (object-of thread)
         (when (and (= :park (:how waits)) (not (in-magnetar thread))) ", and the dump does not show what can end that"))
    (str "runs" (at thread))))

(defn- finding
  "The finding of a chain, given as pairs of a thread and the one for which it waits, or nil."
  [kind pairs]
  {:kind kind
   :grade :exact
   :text (str (named (ffirst pairs)) " "
              (str/join ", which " (for [[thread to] pairs]
                                     (if to (str (waits thread) " of " (named to)) (doing thread))))
              ".")
   :chain (mapv (fn [[thread to]] (step thread to)) pairs)})

(defn- deadlock [cycle]
  (finding :deadlock (map vector cycle (concat (rest cycle) [(first cycle)]))))

(defn- blocked-chain [chain]
  (finding :wait (map vector chain (concat (rest chain) [nil]))))

(defn- blocked
  "Findings about the chains that end at a thread that waits for no other: for each such thread the longest chain, with :behind, the number of chains that end
  there."
  [chains]
  (for [[_ chains] (group-by peek (filter #(and (< 1 (count %)) (nil? (cycle-of %))) chains))
        :let [longest (first (sort-by (comp - count) chains))]]
    (assoc (blocked-chain longest) :behind (count chains))))

(defn- waiting
  "What the other threads of the program wait for, a map of :text and :count for each line."
  [owners threads]
  (sort-by (comp - :count)
           (for [[text same] (group-by doing (filter #(and (:waits %) (line %) (nil? (owner-of owners %))) threads))]
             {:text (str (if (= 1 (count same)) (named (first same)) (str (count same) " threads")) " " (cond-> text (< 1 (count same)) (str/replace #"^waits" "wait")) ".")
              :count (count same)})))

(defn- described
  "The thread as a row of a tree."
  [{:keys [id waits] :as thread}]
  (cond-> {:id [:thread (parse-long id)] :kind (if (re-find fiber-name (:name thread)) :fiber :thread)}
    waits (assoc :waits-for (object-of thread))
    (line thread) (assoc :at (line thread))))

(defn- graded
  "The findings of this dump, with their grade. `jstack` and a signal stop all threads at one instant. `Thread.dump_to_file` reads one after the other, so its
  waits need not have existed at the same time, and the findings are likely."
  [text findings]
  (if (str/includes? text "Full thread dump")
    findings
    (map #(assoc % :grade :likely) findings)))

(defn- at-top?
  "Is the innermost frame in this method?"
  [{[^StackTraceElement frame] :frames} class method]
  (and frame (= class (.getClassName frame)) (= method (.getMethodName frame))))

(defn- carrier?
  "Does it run a virtual thread?"
  [{:keys [carries virtual] :as thread}]
  (or carries (and (not virtual) (at-top? thread "jdk.internal.vm.Continuation" "run"))))

(defn- mounted?
  "May a carrier run this virtual thread? One that has left its carrier has yielded."
  [{:keys [frames virtual]}]
  (and virtual (not-any? #(= "yieldContinuation" (.getMethodName ^StackTraceElement %)) frames)))

(defn- hidden
  "The least number of virtual threads that the dump does not list. Each carrier runs one, and as many of these as the dump lists as mounted are not hidden. If
  there are monitors without a known owner, a hidden one holds them. One thread may hold all of them, and may be among those that run."
  [owners threads]
  (let [held? (some (fn [{{:keys [how object]} :waits}] (and (= :monitor how) (nil? (owners object)))) threads)
        running (- (count (filter carrier? threads)) (count (filter mounted? threads)))]
    (max running (if held? 1 0))))

(defn- of-threads [text threads]
  (let [owners (by-object threads)
        chains (map #(chain-of owners %) threads)]
    {:source :jdk
     :threads (count threads)
     :deadlocks (vec (graded text (distinct (keep #(some-> (cycle-of %) deadlock) chains))))
     :why-stuck (vec (graded text (sort-by (comp - :behind) (blocked chains))))
     :waiting (vec (waiting owners threads))
     :tree (paths/tree threads tree/usual-limit line described)
     :go-blocks-not-shown-at-least (hidden owners threads)
     :not-shown "Go blocks are not in the JDK's dump, unless the program was started with -Dmagnetar.track-go-blocks=true. Nor are channels and messages."}))

;; ---- dumps

(defn- refuse [what]
  (throw (errors/illegal-argument :magnetar/no-dump
                                  (str what " It wants what `inspect/dump` returns or wrote, or a thread dump of the JDK: of `jcmd PID Thread.dump_to_file FILE`, "
                                       "`jstack -l PID` or `kill -QUIT PID`.") {})))

(defn- read-edn [name text]
  (try
    (edn/read-string {:default tagged-literal} text)
    (catch RuntimeException _
      (refuse (str name " is cut off, or is not EDN.")))))

(defn- of-dump [name dump]
  (cond
    (not (and (map? dump) (:magnetar/dump dump))) (refuse (str name " is no dump."))
    (not= 1 (:magnetar/dump dump)) (refuse (str name " was written by another version of Magnetar, which can read it."))
    :else (assoc dump :source :magnetar)))

(defn- of-text [name text]
  (cond
    (str/blank? text) (refuse (str name " is empty."))
    (json-dump/dump? text) (of-threads "" (or (json-dump/threads text) (refuse (str name " is cut off, or is not JSON."))))
    (re-find #"^\s*\{:" text) (of-dump name (read-edn name text))
    :else (let [threads (thread-dump/threads text)]
            (if (seq threads) (of-threads text threads) (refuse (str name " is no dump."))))))

(def ^:private room-for-each-byte
  "How many bytes of memory the analysis takes for each byte of a dump, at most about."
  6)

(defn- read-text
  "The text of a file or a pipe. Refuses a text for which this JVM has no room."
  [^File file]
  (let [most (min (quot (.maxMemory (Runtime/getRuntime)) (long room-for-each-byte)) (- Integer/MAX_VALUE 16))]
    (with-open [in (FileInputStream. file)]
      (let [bytes (.readNBytes in (int most))]
        (when-not (neg? (.read in))
          (refuse (str file " has more than " (quot most 1000000) " MB, for which this JVM has no room: give it more with JAVA_OPTS=-Xmx32g.")))
        (String. bytes StandardCharsets/UTF_8)))))

(defn- of-file [^File file]
  (cond
    (.isDirectory file) (refuse (str file " is a folder."))
    (not (.exists file)) (refuse (str "There is no file " (pr-str (str file)) "."))
    (not (.canRead file)) (refuse (str file " may not be read by this user."))
    :else (of-text (str file)
                   (try
                     (read-text file)
                     (catch IOException e
                       (refuse (str file " cannot be read: " (ex-message e) ".")))))))

(defn- of-usual-files?
  "Is it a path of the operating system's files, and not of a zip file, for example?"
  [x]
  (and (instance? Path x) (= (FileSystems/getDefault) (.getFileSystem ^Path x))))

(defn of
  "What `magnetar.inspect/analyze` returns of the dump, which is data, a file, its path, or the name of a file."
  [x]
  (cond
    (map? x) (of-dump "The map" x)
    (contains? #{"" (File. "")} x) (refuse "`analyze` got an empty name of a file.")
    (instance? File x) (of-file x)
    (of-usual-files? x) (of-file (.toFile ^Path x))
    (string? x) (of-file (File. ^String x))
    :else (refuse (str "`analyze` got " (arguments/show x) "."))))
