(ns magnetar.browser.chromium
  "Chromium without a window, for a test: opens pages, and evaluates JavaScript in them by its DevTools protocol."
  (:require
   [clojure.data.json :as json]
   [clojure.java.io :as io]
   [clojure.string :as str])
  (:import
   (java.io BufferedReader File InputStreamReader)
   (java.lang ProcessHandle)
   (java.net URI)
   (java.net.http HttpClient HttpRequest HttpRequest$BodyPublishers HttpResponse$BodyHandlers WebSocket WebSocket$Listener)
   (java.nio.file Files)
   (java.nio.file.attribute FileAttribute)
   (java.util List)
   (java.util.concurrent TimeUnit)))

(set! *warn-on-reflection* true)

(def ^:private limit-ms "How long an answer may take." 60000)

(def ^:private ^HttpClient client (HttpClient/newHttpClient))

;; ---- the program

(defn- command [^File profile]
  ["chromium" "--headless" "--no-sandbox" "--disable-gpu" "--disable-dev-shm-usage" "--no-first-run" "--disable-background-networking"
   "--disable-component-update" "--disable-sync" "--remote-debugging-port=0" "--remote-allow-origins=*"
   "--host-resolver-rules=MAP shop.test 127.0.0.1" (str "--user-data-dir=" profile) "about:blank"])

(defn- devtools-port
  "Waits until the browser prints the port of its protocol."
  [^BufferedReader output]
  (loop [lines []]
    (let [line (.readLine output)
          [_ port] (some->> line (re-find #"DevTools listening on ws://127.0.0.1:(\d+)/"))]
      (cond
        port (parse-long port)
        line (recur (conj lines line))
        :else (throw (ex-info (str "Chromium has ended: " (str/join "\n" lines)) {}))))))

(defn- drain
  "Reads what the browser prints later, so that it does not wait for a reader."
  [^BufferedReader output]
  (doto (Thread. ^Runnable #(try
                              (while (.readLine output))
                              (catch java.io.IOException _ nil)))
    (.setDaemon true)
    (.start)))

(defn- stop [^Process process ^File profile]
  (let [children (vec (iterator-seq (.iterator (.descendants process))))]
    (.destroy process)
    (when-not (.waitFor process 20 TimeUnit/SECONDS)
      (.waitFor (.destroyForcibly process)))
    (doseq [^ProcessHandle child children]
      (.destroyForcibly child)
      (.get (.onExit child) limit-ms TimeUnit/MILLISECONDS)))
  (run! #(io/delete-file % true) (reverse (file-seq profile))))

(defn call-with-browser
  "Calls f with a browser, which ends afterwards."
  [f]
  (let [profile (.toFile (Files/createTempDirectory "chromium" (make-array FileAttribute 0)))
        process (.start (.redirectErrorStream (ProcessBuilder. ^List (command profile)) true))
        output (BufferedReader. (InputStreamReader. (.getInputStream process)))]
    (try
      (let [port (devtools-port output)]
        (drain output)
        (f {:port port}))
      (finally (stop process profile)))))

;; ---- pages

(defn- http [method port path]
  (let [request (-> (HttpRequest/newBuilder (URI/create (str "http://127.0.0.1:" port path)))
                    (.method method (HttpRequest$BodyPublishers/noBody))
                    .build)]
    (.body (.send client request (HttpResponse$BodyHandlers/ofString)))))

(defn- receive
  "Delivers an answer to the promise of its id, and :loaded when the page is there. The empty page of a new tab does not count."
  [{:keys [answers loaded url]} {:strs [id method params] :as message}]
  (cond
    id (some-> (get @answers id) (deliver message))
    (= "Page.frameNavigated" method) (reset! url (get-in params ["frame" "url"]))
    (and (= "Page.loadEventFired" method) (not= "about:blank" @url)) (deliver loaded true)))

(defn- listener [page]
  (let [text (StringBuilder.)]
    (reify WebSocket$Listener
      (onText [_ socket part last?]
        (.append text part)
        (when last?
          (let [message (json/read-str (str text))]
            (.setLength text 0)
            (receive page message)))
        (.request ^WebSocket socket 1)
        nil))))

(defn ask
  "Sends a command of the protocol to the page; returns its result."
  [{:keys [answers ^WebSocket socket]} method parameters]
  (let [answer (promise)
        id (count (swap! answers #(assoc % (count %) answer)))]
    @(.sendText socket (json/write-str {:id (dec id) :method method :params parameters}) true)
    (let [{:strs [result] :as answered} (deref answer limit-ms nil)]
      (or result
          (throw (ex-info (str "Chromium does not do " method ".") {:parameters parameters :answer answered}))))))

(defn open-page
  "Opens a page in a new tab; returns it when it is loaded."
  [{:keys [port]} url]
  (let [{:strs [id webSocketDebuggerUrl]} (json/read-str (http "PUT" port "/json/new?about:blank"))
        page {:id id :port port :answers (atom {}) :loaded (promise) :url (atom "about:blank")}
        socket (.buildAsync (.newWebSocketBuilder client) (URI/create webSocketDebuggerUrl) (listener page))
        page (assoc page :socket @socket)]
    (ask page "Page.enable" {})
    (ask page "Page.navigate" {:url url})
    (when-not (deref (:loaded page) limit-ms nil)
      (throw (ex-info (str "The page " url " does not load.") {})))
    page))

(defn close-page
  "Closes the page, as a user who closes its tab."
  [{:keys [id port]}]
  (http "GET" port (str "/json/close/" id)))

(defn evaluate
  "The value of a JavaScript expression in the page; waits for a promise."
  [page expression]
  (let [{:strs [result exceptionDetails]} (ask page "Runtime.evaluate" {:expression expression :awaitPromise true :returnByValue true})]
    (when exceptionDetails
      (throw (ex-info (str "The page threw: " exceptionDetails) {:expression expression})))
    (result "value")))

(defn await-true
  "Waits until a JavaScript expression is true in the page: it is evaluated at each change of the document."
  [page expression]
  (evaluate page (str "new Promise(resolve => {
                         const done = () => { try { return Boolean(" expression "); } catch (e) { return false; } };
                         if (done()) { resolve(true); return; }
                         const observer = new MutationObserver(() => { if (done()) { observer.disconnect(); resolve(true); } });
                         observer.observe(document, { childList: true, subtree: true, attributes: true, characterData: true });
                       })")))

(defn screenshot
  "Writes a picture of the page as a PNG file."
  [page file]
  (let [{:strs [data]} (ask page "Page.captureScreenshot" {:format "png" :captureBeyondViewport true})]
    (io/copy (.decode (java.util.Base64/getDecoder) ^String data) (io/file file))))
