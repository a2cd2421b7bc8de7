(ns shop.program
  "The shop as a program of its own, for tests that end it by a signal."
  (:require
   [shop.support :as support])
  (:import
   (java.io BufferedReader InputStreamReader)
   (java.util List)
   (java.util.concurrent TimeUnit)))

(set! *warn-on-reflection* true)

(defn start
  "Starts the shop on a free port with the options."
  [& options]
  (let [home (System/getProperty "magnetar.home")
        command (into [(str home "/bin/magnetar") "run" (str home "/examples/shop/src/shop/main.clj") "--port" "0"] options)
        process (.start (.redirectErrorStream (ProcessBuilder. ^List command) true))]
    {:process process :output (BufferedReader. (InputStreamReader. (.getInputStream process)))}))

(defn port
  "Waits until the shop is open; returns its port."
  [{:keys [^BufferedReader output]}]
  (loop [lines []]
    (let [line (.readLine output)
          [_ port] (some->> line (re-find #"The shop is open at http://.*:(\d+)/"))]
      (cond
        port (parse-long port)
        line (recur (conj lines line))
        :else (throw (ex-info "The shop has ended." {:output lines}))))))

(defn wait-for
  "Waits for the end of the program; returns its exit code."
  [{:keys [^Process process]}]
  (when-not (.waitFor process 90 TimeUnit/SECONDS)
    (.destroyForcibly process))
  (.waitFor process))

(defn terminate
  "Sends SIGTERM; returns the exit code."
  [{:keys [^Process process] :as program}]
  (.destroy process)
  (wait-for program))

(defn kill
  "Sends SIGKILL, and waits."
  [{:keys [^Process process] :as program}]
  (.destroyForcibly process)
  (wait-for program))

(defn place-orders
  "Orders tea n times under keys of the prefix, eight at a time; returns the keys whose order was accepted."
  [port prefix n]
  (let [place (fn [i]
                (let [k (str prefix i)]
                  (try
                    (when (:id (support/order (support/url port "/orders") "tea" k)) k)
                    (catch java.io.IOException _ nil))))]
    (into [] (comp (mapcat #(mapv deref (mapv (fn [i] (future (place i))) %))) (remove nil?))
          (partition-all 8 (range n)))))
