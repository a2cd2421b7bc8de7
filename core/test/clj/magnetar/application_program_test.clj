(ns magnetar.application-program-test
  "Programs of applications in JVMs of their own, with real signals."
  {:slow true
   :limit 240000}
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.application :as application]
   [magnetar.dev.processes :as processes]
   [magnetar.otp.scenarios :as scenarios]
   [magnetar.support :refer [eventually value-of with-hook]])
  (:import
   (java.io BufferedReader File)
   (java.util.concurrent TimeUnit)
   (java.util.jar Attributes$Name JarEntry JarOutputStream Manifest)))

(set! *warn-on-reflection* true)

(def ^:private program
  "(ns shop.main
  (:gen-class)
  (:require
   [magnetar.actor :as actor :refer [receive]]
   [magnetar.application :as application]
   [magnetar.gen-server :as gs]))

(defn never-ends []
  (receive :never nil))

(def worker
  {:init (fn [id] (actor/flag :trap-exit true) (println \"up\" id) [:ok id])
   :handle-call (fn [_ _ id] [:reply id id])
   :handle-cast (fn [f id] (f) [:noreply id])
   :terminate (fn [_ id] (when (= :slow id) (println \"stuck\") (never-ends)) (println \"down\" id))})

(defn app [id & {:as more}]
  (merge {:name id :start {:intensity 0 :children [{:id id :shutdown :infinity :start [gs/start-link worker id {:name id}]}]}} more))

(def shop [(app :web :applications [:db]) (app :db)])

(defn soon [f]
  (gs/cast :db f))

(defn runs [f]
  (actor/spawn (fn [] (while (not (some #{:web} (map :name (application/which-applications)))) (Thread/yield)) (f))))

(defn -main [& [how]]
  (case how
    \"plain\" (do (runs #(println \"ready\")) (application/run shop))
    \"slow\" (do (runs #(println \"ready\")) (application/run [(app :web :applications [:slow]) (app :slow)] {:stop-timeout 3000}))
    \"stuck\" (do (runs #(println \"ready\")) (application/run [(app :web :applications [:slow]) (app :slow)]))
    \"crash\" (do (runs (fn [] (soon #(actor/exit :boom)))) (application/run shop))
    \"fails\" (application/run (conj shop (app :late :applications [:web] :start [(fn [] [:error :no-port])])))
    \"status\" (do (runs #(application/shutdown 3)) (application/run shop))
    \"exit\" (do (runs #(System/exit 5)) (application/run shop))
    \"cycle\" (application/run [(app :web :applications [:db]) (app :db :applications [:web])])
    \"start\" (application/run (app :web :start [(fn [] (println \"ready\") (never-ends))]) {:stop-timeout 300})))
")

;; ---- children

(defn- start-program
  "Starts the command: {:process :lines}, where lines is an atom of what it has printed."
  [& command]
  (let [process (.start (doto (ProcessBuilder. ^java.util.List (vec command)) (.redirectErrorStream true)))
        lines (atom [])]
    {:process process
     :lines lines
     :reader (future (with-open [^BufferedReader reader (io/reader (.getInputStream process))]
                       (run! #(swap! lines conj %) (line-seq reader))))}))

(defn- says? [{:keys [lines]} text]
  (let [deadline (+ (System/nanoTime) 180000000000)]
    (loop []
      (cond
        (some #(str/includes? % text) @lines) true
        (< deadline (System/nanoTime)) false
        :else (do (Thread/sleep 5) (recur))))))

(defn- signal [{:keys [^Process process]} signal-name]
  (processes/start {} "kill" (str "-" signal-name) (str (.pid process))))

(defn- end-of
  "The status of the program, and what it has printed that begins with one of its own words."
  [{:keys [^Process process lines reader]}]
  (let [ended (.waitFor process 180 TimeUnit/SECONDS)]
    (when-not ended (.destroyForcibly process))
    (value-of reader)
    [(if ended (.exitValue process) :late)
     (filterv #(re-find #"^(up|down|stuck) ?" %) @lines)]))

;; ---- the program in a jar

(defn- compiled
  "The folder with the classes of the program, compiled ahead of time with all that it loads."
  [folder]
  (processes/write folder "src/shop/main.clj" program)
  (.mkdirs (io/file folder "classes"))
  (let [path (str folder "/src:" folder "/classes:" (System/getProperty "java.class.path"))
        {:keys [exit out err]} (processes/start {} (str (System/getProperty "java.home") "/bin/java") "-cp" path "clojure.main" "-e"
                                                (str "(binding [*compile-path* \"" folder "/classes\"] (compile 'shop.main))"))]
    (is (= 0 exit) (str out err))
    (io/file folder "classes")))

(defn- manifest []
  (let [manifest (Manifest.)
        attributes (.getMainAttributes manifest)]
    (.put attributes Attributes$Name/MANIFEST_VERSION "1.0")
    (.put attributes Attributes$Name/MAIN_CLASS "shop.main")
    (.put attributes Attributes$Name/CLASS_PATH
          (str/join " " (map #(str (.toURI (io/file %))) (str/split (System/getProperty "java.class.path") #":"))))
    manifest))

(defn- jar-of [^File classes target]
  (with-open [jar (JarOutputStream. (io/output-stream target) (manifest))]
    (doseq [^File file (file-seq classes)
            :when (.isFile file)]
      (.putNextEntry jar (JarEntry. (str (.relativize (.toPath classes) (.toPath file)))))
      (io/copy file jar)
      (.closeEntry jar)))
  (str target))

(def ^:private jar
  (delay (let [folder (str (processes/temporary-folder))]
           (jar-of (compiled folder) (str folder "/shop.jar")))))

(defn- run
  "The program as a jar that was compiled ahead of time, started with `java -jar`."
  [how]
  (start-program (str (System/getProperty "java.home") "/bin/java") "-jar" @jar how))

(def ^:private in-order
  ["up :db" "up :web" "down :web" "down :db"])

;; ---- signals

(deftest ^{:spec ["C113"]} a-signal-stops-the-applications-in-reverse-order-and-the-jvm-ends-with-0
  (doseq [signal-name ["TERM" "INT"]]
    (testing signal-name
      (let [shop (run "plain")]
        (is (says? shop "ready"))
        (signal shop signal-name)
        (is (= [0 in-order] (end-of shop)))))))

(deftest ^{:spec ["C114"]} one-that-does-not-stop-in-time-is-named-with-whom-it-waits-for
  (let [shop (run "slow")]
    (is (says? shop "ready"))
    (signal shop "TERM")
    (is (= [1 ["up :slow" "up :web" "down :web" "stuck"]] (end-of shop)))
    (let [text (str/join "\n" @(:lines shop))]
      (is (re-find #"Not stopped within 3000 ms: :slow, waiting for #magnetar/pid \S+ :slow\S* in shop.main/never-ends, which waits for message" text) text))))

(deftest ^{:spec ["C114"]} the-second-signal-halts
  (let [shop (run "stuck")]
    (is (says? shop "ready"))
    (signal shop "TERM")
    (is (says? shop "stuck"))
    (signal shop "INT")
    (is (= 130 (first (end-of shop))))))

(deftest a-signal-reaches-a-program-that-starts
  (let [shop (run "start")]
    (is (says? shop "ready"))
    (signal shop "TERM")
    (is (= [1 []] (end-of shop)))))

;; ---- under the launcher

(deftest ^{:spec ["C113"]} a-program-that-the-launcher-runs-ends-in-the-same-way
  (let [file (processes/write (processes/temporary-folder) "shop/main.clj" program)
        shop (start-program processes/launcher "run" file "plain")]
    (is (says? shop "ready"))
    (signal shop "TERM")
    (is (= [0 in-order] (end-of shop)))))

;; ---- other ends

(deftest ^{:spec ["C113"]} a-program-ends-in-order-by-itself-too
  (testing "an application that ended on its own"
    (is (= [1 ["up :db" "up :web" "down :db" "down :web"]] (end-of (run "crash")))))
  (testing "shutdown, with its status"
    (is (= [3 in-order] (end-of (run "status")))))
  (testing "System/exit"
    (is (= [5 in-order] (end-of (run "exit"))))))

(deftest ^{:spec ["C113"]} a-program-that-does-not-start-stops-what-has-started-and-says-why
  (let [shop (run "fails")]
    (is (= [1 in-order] (end-of shop)))
    (is (some #(re-find #"Not started: The application :late did not start: :no-port" %) @(:lines shop)) @(:lines shop)))
  (let [shop (run "cycle")]
    (is (= [1 []] (end-of shop)))
    (is (some #(str/includes? % "[:web :db :web]") @(:lines shop)) @(:lines shop))))

;; ---- in this JVM

(deftest run-returns-the-status-if-asked-and-runs-once-at-a-time
  (with-hook [:report (fn [_])]
    (try
      (scenarios/leaving-nobody
        (fn []
          (let [status (future (application/run {:name ::x} {:exit identity}))]
            (is (eventually (= [::x] (map :name (application/which-applications)))))
            (is (thrown-with-msg? IllegalStateException #"while a program runs" (application/run {:name ::y})))
            (is (= :ok (application/shutdown 7)))
            (is (= 7 (value-of status)))
            (is (= [] (application/which-applications)))
            (is (nil? (application/shutdown))))))
      (finally
        (application/unload ::x)))))

(deftest run-refuses-what-does-not-start
  (is (thrown-with-msg? IllegalArgumentException #"this one is empty" (application/run [])))
  (is (thrown-with-msg? IllegalArgumentException #"invalid name at \[:name\]: \"x\"" (application/run {:name "x"})))
  (is (thrown-with-msg? IllegalArgumentException #"`magnetar.application/run` does not know :stop-time" (application/run {:name :x} {:stop-time 3})))
  (is (thrown-with-msg? IllegalArgumentException #"whole number from 0 up; this is -1" (application/shutdown -1))))
